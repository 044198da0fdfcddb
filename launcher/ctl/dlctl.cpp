// SPDX-License-Identifier: Apache-2.0
// dlctl: the commands by which users look at and control their jobs. This file only dispatches.
#include <cstdio>

#include "common/base/letters.h"
#include "common/base/standard_files.h"
#include "config.h"
#include "launcher/ctl/slurm_records.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

// THE table of subcommands. To add one: a file beside this one, and a row.
const Subcommand kSubcommands[] = {
    {"status", "state, train step, checkpoint and learners of jobs", add_status},
    {"pause", "save at an agreed train step, give the GPUs back, and hold the job", add_pause},
    {"resume", "let a paused job start again", add_resume},
    {"grow", "let an elastic job that runs go on on more nodes, without leaving those that it has", add_grow},
    {"why", "what a job waits for, who holds it, and what would have to end", add_why},
    {"quota", "GPUs of tenants: own, used, lent, borrowed; what would be taken back for a job", add_quota},
    {"usage", "GPU-hours of tenants and users: own, lent, borrowed", add_usage},
    {"scaling", "how fast a job trains with more or fewer learners: measured, and by a model", add_scaling},
    {"logs", "what the learners printed", add_logs},
    {"metrics", "loss, accuracy and other values of jobs, over all their attempts", add_metrics},
    {"export", "the metrics of a job for TensorBoard, MLflow or W&B", add_export},
    {"report", "one page about a job, to send to others: states, curves, use, failures, checkpoints", add_report},
    {"top", "all jobs, live: state, train step, rate, loss, what remains; pause and resume them", add_top},
    {"data", "the site's data sets, your cache on this machine, and data that is fetched before a job starts",
     add_data},
    {"results", "where the results of a job are, and a copy of them", add_results},
    {"frameworks", "the frameworks that --dl-framework knows, and what is installed here", add_frameworks},
    {"clean", "job directories of jobs that have ended: their sizes, and their removal", add_clean},
    {"migrate", "a batch script of another launcher, or FfDL's manifest.yml, with --dl-* flags and dlrun", add_migrate},
    {"python", "let a Python outside of jobs find the modules dlckpt and dl", add_python},
    {"doctor", "what of Slurm, dl.toml and this host is not as slurm-dl needs it, and the line to change", add_doctor},
    {"config", "check the site's configuration", add_config},
};

int run(int argc, char** argv) {
  CommandLine line("dlctl", "Show and steer deep-learning jobs of slurm-dl.");
  line.version("--version", PACKAGE_STRING "\n" + served_versions());
  line.require_subcommand();
  line.instead_of({"list", "ls", "ps", "queue", "jobs", "show"},
                  "dlctl status lists your jobs, dlctl status --ended those that have ended");
  line.instead_of({"cancel", "kill", "stop", "delete"},
                  "scancel JOB ends a job for good; dlctl pause JOB saves it, so that it can go on");
  line.instead_of({"submit", "run", "start"}, "jobs are submitted by sbatch SCRIPT, or dlrun --submit -- COMMAND");
  line.instead_of({"help"}, "dlctl --help, or dlctl SUBCOMMAND --help");
  line.footer("Each subcommand has a --help of its own. Exit codes and examples: dlctl(1).");
  std::vector<std::pair<CommandLine*, Run>> runs;
  for (const Subcommand& row : kSubcommands) {
    CommandLine* sub = line.subcommand(row.name, row.summary);
    runs.emplace_back(sub, row.add(sub));
  }
  const Result<std::string> text = line.parse(argc, argv);
  if (!text) {
    std::fputs(line.complaint(text.error()).c_str(), stderr);
    return kUsage;
  }
  if (!text->empty()) {
    std::fputs(text->c_str(), stdout);
    const Status printed = flush_standard_output();
    if (!printed) std::fprintf(stderr, "dlctl: %s\n", printed.error().text.c_str());
    return printed ? kDone : kFailed;
  }
  for (const auto& [sub, action] : runs) {
    if (!sub->chosen()) continue;
    const Status status = action();
    const Status printed = flush_standard_output();
    if (status && printed) return kDone;
    const Error& error = status ? printed.error() : status.error();
    std::fprintf(stderr, "dlctl %s: %s\n", sub->name().c_str(), error.text.c_str());
    return printed ? exit_code_of(error) : kFailed;
  }
  return kUsage;
}

}  // namespace

int exit_code_of(const Error& error) {
  switch (error.code) {
    case Errc::kInvalid:
    case Errc::kConflict:
      return kUsage;
    case Errc::kNotFound:
      return kUnknownJob;
    case Errc::kDenied:
      return kDenied;
    case Errc::kTimeout:
      return kTimedOut;
    default:
      return kFailed;
  }
}

}  // namespace dl::ctl

int main(int argc, char** argv) {
  dl::open_closed_standard_files();
  dl::show_letters(dl::locale_is_utf8());
  try {
    return dl::ctl::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dlctl: %s\n", error.what());
    return dl::ctl::kFailed;
  }
}
