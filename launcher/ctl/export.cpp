// SPDX-License-Identifier: Apache-2.0
// dlctl export JOB: its metrics for TensorBoard, MLflow and W&B. TensorBoard's files are written here; the others by
// their own Python packages (launcher/python/dl/export).
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/base/shell_word.h"
#include "common/base/unique_fd.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/export_folder.h"
#include "launcher/ctl/export_runs.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/memory_file.h"
#include "launcher/ctl/metrics_job.h"
#include "launcher/ctl/metrics_view.h"
#include "launcher/ctl/python_helper.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct ExportOptions {
  std::string job, dir, tensorboard, mlflow, wandb;
  MetricsChoice choice;
  int rank = -1;
};

// The one program that was chosen, by its option, and its folder.
Result<std::pair<std::string, std::string>> target_of(const ExportOptions& options) {
  std::pair<std::string, std::string> target;
  for (const auto& [name, folder] :
       std::array{std::pair{"--tensorboard", &options.tensorboard}, std::pair{"--mlflow", &options.mlflow},
                  std::pair{"--wandb", &options.wandb}}) {
    if (folder->empty()) continue;
    if (!target.first.empty())
      return Error{Errc::kConflict, target.first + " and " + name + " exclude each other; allowed: one of them"};
    target = {name, *folder};
  }
  if (target.first.empty())
    return Error{Errc::kInvalid,
                 "the folder to write is missing; allowed: --tensorboard DIR, --mlflow DIR or --wandb DIR"};
  return target;
}

void print_left_out(const JobMetrics& metrics, const ExportedJob& exported) {
  for (size_t i = 0; i < metrics.notes.size() && i < kMostShownNotes; ++i)
    std::printf("%s\n", printable(metrics.notes[i], 300).c_str());
  if (metrics.notes.size() > kMostShownNotes) std::printf("%zu more notes\n", metrics.notes.size() - kMostShownNotes);
  if (exported.without_step > 0)
    std::printf("%s without a train step left out\n", count_text(exported.without_step, "point").c_str());
  if (exported.superseded > 0)
    std::printf("%s that later attempts have superseded left out; --all exports each attempt as a run of its own\n",
                count_text(exported.superseded, "point").c_str());
}

Status run(ExportOptions options) {
  DL_TRY_ASSIGN(const auto target, target_of(options));
  const auto& [option, folder] = target;
  if (options.rank >= 0) options.choice.rank = options.rank;
  DL_TRY_ASSIGN(const Job job, find_run(options.job, options.dir));
  if (!job.has_dir())
    return Error{Errc::kNotFound, "the directory of job " + job.name() + " is not known; name it: --dir DIR"};
  if (option != "--tensorboard" && ::geteuid() == 0 && is_foreign(job))
    return Error{Errc::kDenied,
                 option +
                     ": python3 would write to root's terminal with the rights of the job's user, who could take it "
                     "over; allowed: --tensorboard, or that user's own dlctl export"};
  DL_TRY(act_as_owner(job));
  DL_TRY_ASSIGN(const JobMetrics metrics, read_metrics(job, options.choice));
  const ExportedJob made = exported(metrics, options.choice.superseded);
  if (made.points == 0)
    return Error{Errc::kNotFound,
                 "job " + metrics.job +
                     (metrics.curves.empty() && metrics.notes.empty() ? " has no such metrics"
                                                                      : " has no metrics that can be exported") +
                     "; \"dlctl metrics\" shows those that it has"};
  if (option != "--tensorboard") {
    const char* state = shown_name(view_job(job, false).shown);
    DL_TRY_ASSIGN(const UniqueFd input, memory_file(export_json(metrics, job.dir.root(), state, made)));
    if (::dup2(input.get(), STDIN_FILENO) < 0) return errno_error("standard input", errno);
    print_left_out(metrics, made);
    return run_python("dl.export.__main__", {option.substr(2), "--", folder});
  }
  DL_TRY_ASSIGN(const std::string path, write_event_files(folder, metrics.job, made));
  print_left_out(metrics, made);
  std::printf("%s of job %s written into %s; to look at them: tensorboard --logdir %s\n",
              count_text(made.points, "point").c_str(), printable(metrics.job).c_str(), printable(path, 4096).c_str(),
              printable(shell_word(folder), 4096).c_str());
  return {};
}

}  // namespace

Run add_export(CommandLine* line) {
  auto options = std::make_shared<ExportOptions>();
  line->argument("JOB", &options->job, "job id, local-..., or path of a job directory").required();
  line->option("--tensorboard", &options->tensorboard, "event files of TensorBoard, in DIR/JOB").form("DIR");
  line->option("--mlflow", &options->mlflow, "runs in MLflow's own files; needs the Python package mlflow").form("DIR");
  line->option("--wandb", &options->wandb, "offline runs of W&B, for wandb sync; needs the Python package wandb")
      .form("DIR");
  line->option("--name", &options->choice.name, "only this metric, such as loss or 'acc*'").form("NAME");
  line->option("--group", &options->choice.group, "only this group, such as train, validate or test").form("GROUP");
  line->option("--rank", &options->rank, "only of this rank").form("R").between(0, 999999);
  line->flag("--all", &options->choice.superseded, "each attempt as a run, with the points that later ones superseded");
  line->option("--dir", &options->dir, "the job directory; needed only if dlctl cannot find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
