// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/store_job.h"

#include <fmt/core.h>

#include "common/base/parse.h"
#include "common/base/shell_word.h"
#include "common/json/json.h"
#include "launcher/slurm_cli/watch_script.h"

namespace dl::supervise {
namespace {

// A path as sbatch's --output takes it.
std::string literal(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

}  // namespace

bool is_handed_over(const plan::LaunchPlan& plan, AfterEnd after, const StoreOutcome& outcome) {
  return plan.under_slurm && plan.results && !outcome.done && outcome.late && after != AfterEnd::kQueued;
}

std::string store_job_name(const std::string& job_id, int run) {
  return "dl-store-" + job_id + (run > 1 ? "." + std::to_string(run) : "");
}

std::vector<std::string> store_job_options(const slurm_cli::JobText& job, const std::string& name,
                                           const record::JobDir& dir) {
  // In the partition that the site gives to jobs that ask for none: the job's own one may be for GPUs alone.
  std::vector<std::string> options = {"--job-name=" + name,   "--ntasks=1",
                                      "--gres=none",          "--requeue",
                                      "--open-mode=append",   "--output=" + literal(dir.data()) + "/store-%j.out",
                                      "--chdir=" + dir.root()};
  const std::string account = slurm_cli::given(job.value("Account"));
  if (!account.empty()) options.push_back("--account=" + account);
  return options;
}

std::string store_job_script(const slurm_cli::JobText& job, const plan::LaunchPlan& plan, const record::JobDir& dir,
                             int attempt) {
  const std::string& restarts = job.value("Restarts");
  const std::string mark = "TIME-IN-SECONDS000";
  Json stored = {{"to", plan.results->to}, {"done", true}, {"attempt", attempt}, {"time_ms", mark}};
  const std::string text = stored.dump();
  const size_t at = text.find("\"" + mark + "\"");
  return fmt::format(
      R"(#!/bin/sh
# Stores the results of job {0}, for which the time did not suffice at its end. Not needed if that job runs again.
{1}while :; do
  look
  case $state in
    RUNNING | SUSPENDED | STOPPED | SIGNALING | RESIZING | STAGE_OUT | CONFIGURING) [ "$restarts" = {2} ] || exit 0 ;;
    COMPLETING | "") ;;
    *) break ;;
  esac
  sleep 2
done
{3} </dev/null || exit
printf '%s%s000%s\n' {4} $(date +%s) {5} >{6}.job && mv {6}.job {6}
)",
      slurm_cli::own_id(job), slurm_cli::look_function(slurm_cli::own_id(job)), restarts.empty() ? "0" : restarts,
      shell_words(store_command(plan, dir, {})), shell_word(text.substr(0, at)),
      shell_word(text.substr(at + mark.size() + 2)), shell_word(dir.stored()));
}

std::string handed_to(const std::string& text) {
  const Json json = Json::parse(text);
  const Json* job = json.is_object() ? json.find("job") : nullptr;
  const bool is_id = job != nullptr && job->is_string() && parse_int(job->text(), 1, UINT32_MAX);
  return is_id ? job->text() : std::string();
}

}  // namespace dl::supervise
