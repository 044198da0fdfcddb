// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/run_options.h"

#include <cstdio>

#include "common/base/parse.h"
#include "common/base/shell_word.h"
#include "common/cli/command_line.h"
#include "common/contract/exit_codes.h"
#include "config.h"
#include "launcher/options/passed_options.h"
#include "launcher/plan/launch_plan.h"

namespace dl {

ParsedArguments parse_arguments(int argc, char** argv) {
  RunCommand run;
  std::string grace;
  CommandLine line("dlrun",
                   "Run a deep-learning program on several learners, in a Slurm job or on this machine alone.\n\n"
                   "  dlrun --learners 4 -- python3 train.py\n\n"
                   "In a Slurm job what is not given here comes from the job's --dl-* flags.");
  line.version("-V,--version", std::string("dlrun (slurm-dl) ") + PACKAGE_VERSION);
  line.option("-n,--learners", &run.request.learners, "How many learners: N, MIN:MAX, or auto: one for each GPU")
      .form("N");
  line.option("-f,--framework", &run.request.framework, "Framework of the catalogue (dlctl frameworks)")
      .form("NAME[:VERSION]");
  line.option("--servers", &run.request.servers,
              "Parameter servers beside the learners, without GPUs; a range makes them an elastic pool")
      .form("N|MIN:MAX");
  line.option("-g,--gpus", &run.request.gpus, "GPUs for each learner").form("[TYPE:]N");
  line.option("--batch", &run.request.batch, "Global batch sizes that keep accuracy, for programs that ask for theirs")
      .form("MIN:MAX[:MULTIPLE][,rule=RULE][,micro=N]");
  line.option("-c,--checkpoint", &run.request.checkpoint,
              "Checkpoint directory: PATH[,every=10m|50steps|auto][,keep=3]...")
      .form("PATH");
  line.option("-r,--restarts", &run.request.restarts, "Restarts after a failure, inside the allocation").form("N");
  line.option("--placement", &run.request.rank_placement, "Ranks on nodes: block or cyclic").form("NAME");
  line.option("--preflight", &run.request.preflight, "Check the nodes first: off, quick or full").form("MODE");
  line.option("--metrics", &run.request.metrics, "Values in the output: 'loss %{FLOAT:loss} at step %{INT:step}'")
      .form("EXPRESSION[ || EXPRESSION]...");
  line.option("--image", &run.request.image, "Container image that the learners run in").form("PATH");
  line.option("--data", &run.request.data, "Data that is there before the learners start: a path, a remote or a URL")
      .form("SRC[,to=DIR][,cache=MODE]|FILE.toml|@NAME");
  line.option("--results", &run.request.results, "Where results and logs are stored at each end of the job")
      .form("DEST[,checkpoint]");
  line.option("--bind", &run.request.bind, "Learners on CPUs of their own: none, cores or numa").form("MODE");
  line.flag("--alone", &run.request.alone, "Tell the only learner no rank, as if it were started by hand");
  line.option("--job-dir", &run.job_dir, "Where events and logs go (%j: job id)").form("PATH");
  line.option("--hang-timeout", &run.request.hang_timeout, "A learner without progress for this long has failed")
      .form("TIME");
  line.option("--grace", &grace, "How long learners may take to end after SIGTERM").form("TIME");
  line.flag("--dry-run", &run.dry_run, "Print the launch plan and start nothing");
  line.flag("--json", &run.json, "With --dry-run or --submit: print the plan or the job as JSON");
  line.flag("-q,--quiet", &run.quiet, "Write the learners' output to their logs only, and of dlrun's own only errors");
  line.flag("--debug", &run.debug,
            "Give this terminal to learner 0, for a debugger such as pdb; no restarts, no check for hangs");
  line.flag("--submit", &run.submit, "Write the batch script for this, show it and submit it; without Slurm: run here");
  std::vector<std::optional<std::string>> passed(submit::kPassedOptionCount);
  for (size_t i = 0; i < submit::kPassedOptionCount; ++i) {
    const submit::PassedOption& row = submit::kPassedOptions[i];
    line.option(std::string("--") + row.name, &passed[i], row.help).form(row.value).heading("With --submit");
  }
  std::vector<std::string> other_options;
  line.option("--sbatch", &other_options, "Any other option of sbatch, for example --sbatch=--exclusive")
      .form("OPTION")
      .heading("With --submit");
  line.rest("COMMAND", &run.command, "What each learner runs");
  // What users of torchrun, mpirun, srun and accelerate type.
  line.instead_of({"--nproc-per-node", "--ntasks", "--ntasks-per-node", "--np", "--num-processes", "--world-size"},
                  "--learners N starts so many processes, on all nodes of the job together");
  line.instead_of({"--nnodes", "--nodes", "--node-rank", "--master-addr", "--master-port", "--rdzv-backend",
                   "--rdzv-endpoint", "--rdzv-id", "--standalone", "--num-machines", "--machine-rank"},
                  "dlrun takes the nodes from the job and the address from them: leave it out");
  line.instead_of({"--max-restarts"}, "--restarts N is the same here");
  ParsedArguments parsed;
  auto fail = [&parsed](const std::string& text) {
    std::fprintf(stderr, "dlrun: %s\nTry 'dlrun --help'.\n", text.c_str());
    parsed.exit_status = kExitUsage;
    return parsed;
  };
  const Result<std::string> text = line.parse(argc, argv);
  if (!text) return fail(text.error().text);
  if (!text->empty()) {
    parsed.exit_status = std::fputs(text->c_str(), stdout) < 0 ? kExitInternal : 0;
    return parsed;
  }
  if (run.command.empty())
    return fail("no command given: dlrun [OPTIONS] -- COMMAND, such as dlrun --learners 4 -- python3 train.py");
  if (run.job_dir && run.job_dir->empty()) return fail("--job-dir: the value is empty; allowed: a path, such as dl-%j");
  if (run.submit && run.request.learners == "auto")
    return fail("--learners: 'auto' takes the GPUs of a job that runs; with --submit say how many: --learners N");
  if (run.debug && (run.submit || run.quiet))
    return fail(std::string("--debug: gives learner 0 the terminal, and so excludes ") +
                (run.submit ? "--submit; allowed: salloc, then dlrun --debug" : "--quiet; allowed: one of the two"));
  if (run.debug) run.request.restarts = "0";
  if (!grace.empty()) {
    Result<std::chrono::seconds> value = parse_duration(grace);
    if (!value) return fail("--grace: " + value.error().text);
    run.grace = *value;
  }
  for (size_t i = 0; i < passed.size(); ++i)
    if (passed[i]) run.sbatch.emplace_back(submit::kPassedOptions[i].name, *passed[i]);
  for (const std::string& option : other_options) {
    const size_t equals = option.find('=');
    if (option.size() < 3 || option.compare(0, 2, "--") != 0 || equals == 2)
      return fail("--sbatch: '" + printable(option) + "' is not an option of sbatch; allowed: --NAME or --NAME=VALUE");
    run.sbatch.emplace_back(option.substr(2, equals == std::string::npos ? equals : equals - 2),
                            equals == std::string::npos ? "" : option.substr(equals + 1));
  }
  if (!run.sbatch.empty() && !run.submit)
    return fail("--" + run.sbatch.front().first +
                ": is an option of the batch script that --submit writes; allowed: with --submit, or not at all");
  if (run.json && !run.dry_run && !run.submit)
    return fail("--json: tells the plan, or the job that was submitted; allowed: with --dry-run or --submit");
  std::vector<std::string> words(argv, argv + argc);
  words.front() = "dlrun";
  run.typed = shell_words(words);
  parsed.command = std::move(run);
  return parsed;
}

}  // namespace dl
