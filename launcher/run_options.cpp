// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "config.h"
#include "launcher/common/parse.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/submit/passed_options.h"
#include "launcher/supervise/exit_codes.h"

namespace dl {

ParsedArguments parse_arguments(int argc, char** argv) {
  RunCommand run;
  std::string grace;
  CLI::App app{
      "Run a deep-learning program on several learners, in a Slurm job or on this machine alone.\n\n"
      "  dlrun --learners 4 -- python3 train.py\n\n"
      "In a Slurm job what is not given here comes from the job's --dl-* flags.",
      "dlrun"};
  app.set_version_flag("-V,--version", std::string("dlrun (slurm-dl) ") + PACKAGE_VERSION);
  app.get_formatter()->column_width(34);
  app.add_option("-n,--learners", run.request.learners, "How many learners: N, or MIN:MAX")->type_name("N");
  app.add_option("-f,--framework", run.request.framework, "Framework of the catalogue (dlctl frameworks)")
      ->type_name("NAME[:VERSION]");
  app.add_option("--servers", run.request.servers, "Parameter servers beside the learners, without GPUs")
      ->type_name("N");
  app.add_option("-g,--gpus", run.request.gpus, "GPUs for each learner")->type_name("[TYPE:]N");
  app.add_option("-c,--checkpoint", run.request.checkpoint,
                 "Checkpoint directory: PATH[,every=10m|50steps|auto][,keep=3]...")
      ->type_name("PATH");
  app.add_option("-r,--restarts", run.request.restarts, "Restarts after a failure, inside the allocation")
      ->type_name("N");
  app.add_option("--placement", run.request.placement, "Ranks on nodes: block or cyclic")->type_name("NAME");
  app.add_option("--preflight", run.request.preflight, "Check the nodes first: off, quick or full")->type_name("MODE");
  app.add_option("--image", run.request.image, "Container image that the learners run in")->type_name("PATH");
  app.add_option("--bind", run.request.bind, "Learners on CPUs of their own: none, cores or numa")->type_name("MODE");
  app.add_option("--job-dir", run.job_dir, "Where events and logs go (%j: job id)")->type_name("PATH");
  app.add_option("--hang-timeout", run.request.hang_timeout, "No progress of a learner for so long counts as a failure")
      ->type_name("TIME");
  app.add_option("--grace", grace, "How long learners may take to end after SIGTERM")->type_name("TIME");
  app.add_flag("--dry-run", run.dry_run, "Print the launch plan and start nothing");
  app.add_flag("--json", run.json, "With --dry-run: print it as JSON");
  app.add_flag("-q,--quiet", run.quiet, "Learners' output to their logs alone; only errors of our own");
  app.add_flag("--submit", run.submit,
               "Write the batch script for this, show it and submit it; without Slurm: run here");
  for (size_t i = 0; i < submit::kPassedOptionCount; ++i) {
    const submit::PassedOption& passed = submit::kPassedOptions[i];
    const std::string name = passed.name;
    app.add_option_function<std::string>(
           "--" + name, [&run, name](const std::string& value) { run.sbatch.emplace_back(name, value); }, passed.help)
        ->type_name(passed.value)
        ->group("With --submit");
  }
  std::vector<std::string> other_options;
  app.add_option("--sbatch", other_options, "Any other option of sbatch, for example --sbatch=--exclusive")
      ->type_name("OPTION")
      ->allow_extra_args(false)
      ->group("With --submit");
  app.add_option("COMMAND", run.command, "What each learner runs")->type_name("");
  app.positionals_at_end(true);
  app.prefix_command();  // the first word that is no option of ours starts the command: its options are its own
  ParsedArguments parsed;
  auto fail = [&parsed](const std::string& text) {
    std::fprintf(stderr, "dlrun: %s\nTry 'dlrun --help'.\n", text.c_str());
    parsed.exit_status = supervise::kExitUsage;
    return parsed;
  };
  // What follows "--" is the command, whatever it looks like; the parser never sees it.
  char** const end = argv + argc;
  char** const separator = std::find_if(argv, end, [](const char* word) { return std::strcmp(word, "--") == 0; });
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::Success& e) {  // --help, --version
    parsed.exit_status = app.exit(e);
    return parsed;
  } catch (const CLI::ParseError& e) {
    return fail(e.what());
  }
  for (const std::string& word : app.remaining()) run.command.push_back(word);
  if (!run.command.empty() && run.command.front()[0] == '-')
    return fail("'" + printable(run.command.front()) + "' is no option of dlrun; a command of that name follows --");
  // A command that began before it keeps its "--".
  char** const rest = separator != end && run.command.empty() ? separator + 1 : separator;
  run.command.insert(run.command.end(), rest, end);
  if (run.command.empty()) return fail("no command given: dlrun [OPTIONS] -- COMMAND");
  if (!grace.empty()) {
    Result<std::chrono::seconds> value = parse_duration(grace);
    if (!value) return fail("--grace: " + value.error().text);
    run.grace = *value;
  }
  for (const std::string& option : other_options) {
    const size_t equals = option.find('=');
    if (option.size() < 3 || option.compare(0, 2, "--") != 0 || equals == 2)
      return fail("--sbatch: '" + printable(option) + "' is not an option of sbatch; allowed: --NAME or --NAME=VALUE");
    run.sbatch.emplace_back(option.substr(2, equals == std::string::npos ? equals : equals - 2),
                            equals == std::string::npos ? "" : option.substr(equals + 1));
  }
  if (!run.sbatch.empty() && !run.submit) return fail("--" + run.sbatch.front().first + ": is only for --submit");
  if (run.json && !run.dry_run && !run.submit) return fail("--json: is only for --dry-run and --submit");
  std::vector<std::string> words(argv, end);
  words.front() = "dlrun";
  run.typed = plan::quote_command(words);
  parsed.command = std::move(run);
  return parsed;
}

}  // namespace dl
