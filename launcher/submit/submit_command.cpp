// SPDX-License-Identifier: Apache-2.0
#include "launcher/submit/submit_command.h"
#include "common/base/this_process.h"
#include "common/json/json.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "common/base/parse.h"
#include "common/contract/data_request.h"
#include "common/contract/exit_codes.h"
#include "common/process/child_process.h"
#include "common/site/site_config.h"
#include "launcher/options/run_input.h"
#include "launcher/plan/allocation/allocation.h"
#include "launcher/submit/batch_script.h"
#include "launcher/submit/places.h"
#include "launcher/submit/submit.h"

namespace dl::submit {
namespace {

using Text = std::optional<std::string>;

// Options that become flags of the job; dlrun's other options are written on its own line in the script.
const struct {
  const char* flag;
  Text plan::RequestOptions::*value;
} kFlags[] = {
    {"dl-framework", &plan::RequestOptions::framework}, {"dl-learners", &plan::RequestOptions::learners},
    {"dl-servers", &plan::RequestOptions::servers},     {"dl-gpus", &plan::RequestOptions::gpus},
    {"dl-batch", &plan::RequestOptions::batch},         {"dl-checkpoint", &plan::RequestOptions::checkpoint},
    {"dl-restarts", &plan::RequestOptions::restarts},   {"dl-hang-timeout", &plan::RequestOptions::hang_timeout},
    {"dl-preflight", &plan::RequestOptions::preflight}, {"dl-metrics", &plan::RequestOptions::metrics},
    {"dl-image", &plan::RequestOptions::image},         {"dl-data", &plan::RequestOptions::data},
    {"dl-results", &plan::RequestOptions::results},
};

std::vector<std::string> dlrun_line(const RunCommand& run) {
  const auto own = own_program();
  const bool in_path = own && find_program("dlrun") == *own;
  std::vector<std::string> line = {in_path || !own ? "dlrun" : *own};
  const auto add = [&line](const char* option, const std::string& value) {
    line.emplace_back(option);
    line.push_back(value);
  };
  if (run.request.rank_placement) add("--placement", *run.request.rank_placement);
  if (run.request.bind) add("--bind", *run.request.bind);
  if (run.job_dir) add("--job-dir", *run.job_dir);
  if (run.grace) add("--grace", std::to_string(run.grace->count()) + "s");
  if (run.request.alone) line.emplace_back("--alone");
  if (run.quiet) line.emplace_back("--quiet");
  return line;
}

Result<ScriptInput> script_input(const RunCommand& run) {
  ScriptInput input;
  input.environment = own_environment();
  DL_TRY_ASSIGN(input.work_dir, current_directory());
  // Reports a wrong value before anything is written.
  DL_TRY(plan::read_request({}, run.request, SiteConfig()));
  const auto named = [&](const char* name) {
    return std::any_of(run.sbatch.begin(), run.sbatch.end(), [&](const auto& option) { return option.first == name; });
  };
  if (!named("job-name")) input.sbatch.emplace_back("job-name", job_name_of(run.command));
  input.sbatch.insert(input.sbatch.end(), run.sbatch.begin(), run.sbatch.end());
  if (!named("chdir")) input.sbatch.emplace_back("chdir", input.work_dir);
  for (const auto& row : kFlags)
    if (const Text& value = run.request.*row.value) input.sbatch.emplace_back(row.flag, *value);
  input.dlrun = dlrun_line(run);
  input.command = run.command;
  input.typed = run.typed;
  return input;
}

std::string value_of(const ScriptInput& input, const std::string& name) {
  std::string value;
  for (const auto& [option, text] : input.sbatch)
    if (option == name) value = text;
  return value;
}

// A file name for a job's name, which may contain any character.
std::string file_name_for(const std::string& job_name) {
  return job_name_of({job_name});
}

void show(const std::string& path, const std::string& script) {
  std::fprintf(stderr, "dlrun: the batch script, %s:\n", path.c_str());
  for (const std::string& line : split(script, '\n'))
    if (!line.empty()) std::fprintf(stderr, "    %s\n", line.c_str());
}

// Where the site has a cache that all nodes see, the data is fetched while the job waits (dlctl data prefetch). If that
// does not work, the job fetches it by itself.
void prefetch(const RunCommand& run, const std::string& job) {
  const auto asked = run.request.data ? data::parse_data(*run.request.data) : Result<data::DataFlag>(Error{});
  if (!asked || (asked->file.empty() && asked->source.cache == data::Cache::kNone)) return;
  const auto site = load_site_config(default_site_config_path(true));
  const auto self = own_program();
  if (!site || site->data.shared.empty() || !self) return;
  constexpr std::chrono::minutes kPrefetchLimit{5};
  CommandOptions options;
  options.timeout = kPrefetchLimit;
  const std::string dlctl = self->substr(0, self->rfind('/')) + "/dlctl";
  const auto done = run_command({dlctl, "data", "prefetch", *run.request.data, "--job", job}, options);
  const std::string words = !done ? done.error().text : (done->ok() ? done->out : done->err);
  if (!run.quiet)
    std::fprintf(stderr, "dlrun: %s%s\n",
                 done && done->ok() ? "" : "the job fetches its data by itself: ", printable(trim(words), 500).c_str());
}

int failed(const Error& error, int status) {
  std::fprintf(stderr, "dlrun: %s\n", error.text.c_str());
  return status;
}

}  // namespace

bool runs_here(const RunCommand& run, std::string* note) {
  note->clear();
  if (!run.submit) return true;
  if (plan::in_slurm_job(own_environment())) {
    *note = "--submit: this is a Slurm job already; the learners run in it";
    return true;
  }
  if (has_sbatch()) return false;
  *note = "--submit: there is no Slurm here (no sbatch in PATH); the learners run on this machine";
  return true;
}

int submit_command(const RunCommand& run) {
  auto input = script_input(run);
  if (!input) return failed(input.error(), kExitUsage);
  const auto script = batch_script(*input);
  if (!script) return failed(script.error(), kExitUsage);
  if (run.dry_run) {
    std::fputs(script->c_str(), stdout);
    return 0;
  }
  std::string note;
  const std::filesystem::path start = std::filesystem::path(input->work_dir) / value_of(*input, "chdir");
  if (Status there = check_places(run, start.string(), &note); !there) return failed(there.error(), kExitUsage);
  if (!run.quiet && !note.empty()) std::fprintf(stderr, "dlrun: %s\n", note.c_str());
  const auto written = write_script(input->work_dir, file_name_for(value_of(*input, "job-name")), *script);
  if (!written) return failed(written.error(), kExitCannotStart);
  const std::string& path = written->path;
  if (!run.quiet) show(path, *script);
  const auto submitted = submit_script(path);
  if (!submitted) {
    // The script goes, because the same command line writes it again once the user has removed the error.
    if (written->created) ::unlink(path.c_str());
    return failed(submitted.error(), kExitCannotStart);
  }
  prefetch(run, submitted->job_id);
  if (!run.quiet) {
    std::fputs(submitted->message.c_str(), stderr);
    std::fprintf(stderr, "dlrun: follow it with: dlctl status %s; dlctl logs %s\n", submitted->job_id.c_str(),
                 submitted->job_id.c_str());
  }
  if (run.json) {
    std::printf("%s\n", Json{{"job_id", submitted->job_id}, {"script", path}}.dump_sorted().c_str());
  } else {
    std::printf("Submitted batch job %s\n", submitted->job_id.c_str());
  }
  return 0;
}

}  // namespace dl::submit
