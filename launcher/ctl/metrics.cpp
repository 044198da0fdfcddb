// SPDX-License-Identifier: Apache-2.0
// dlctl metrics JOB...: the values that learners reported, over all attempts: loss, accuracy and whatever else.
#include <cstdio>
#include <memory>

#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/metrics_job.h"
#include "launcher/ctl/metrics_view.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostJobs = 100;

struct Options {
  std::vector<std::string> jobs;
  std::string dir;
  MetricsChoice choice;
  int rank = -1;
  bool csv = false, json = false;
};

Status run(Options options) {
  if (options.csv && options.json)
    return Error{Errc::kConflict, "--csv and --json exclude each other; allowed: one of them"};
  if (!options.dir.empty() && options.jobs.size() > 1)
    return Error{Errc::kConflict, "--dir names the directory of one job; allowed: one JOB with it"};
  if (options.jobs.size() > kMostJobs)
    return Error{Errc::kInvalid, "too many jobs; allowed: up to " + std::to_string(kMostJobs)};
  if (options.rank >= 0) options.choice.rank = options.rank;
  std::vector<Job> found;
  std::vector<std::string> folders;
  for (const std::string& name : options.jobs) {
    DL_TRY_ASSIGN(Job job, find_run(name, options.dir));
    if (!job.has_dir())
      return Error{Errc::kNotFound, "the directory of job " + job.name() + " is not known; name it: --dir DIR"};
    folders.push_back(job.dir.root());
    found.push_back(std::move(job));
  }
  // Root takes the rights of one user for good, so all jobs have to be that user's.
  DL_TRY(found.size() == 1 ? act_as_owner(found[0]) : act_as_owner_of(folders));
  std::vector<JobMetrics> jobs;
  bool any = false;
  std::string notes;
  for (const Job& job : found) {
    DL_TRY_ASSIGN(JobMetrics its, read_metrics(job, options.choice));
    any = any || !its.curves.empty();
    if (notes.empty() && !its.notes.empty()) notes = its.notes[0];
    jobs.push_back(std::move(its));
  }
  const bool superseded = options.choice.superseded;
  if (options.csv || options.json) {
    const std::string text = options.csv ? metrics_csv(jobs, superseded) : metrics_json(jobs, superseded);
    std::fputs(text.c_str(), stdout);
    return {};
  }
  if (!any) {
    const bool chosen = !options.choice.name.empty() || !options.choice.group.empty() || options.choice.rank;
    if (!chosen && !notes.empty()) return Error{Errc::kNotFound, "no metrics can be shown: " + printable(notes, 300)};
    return Error{Errc::kNotFound, "job " + jobs[0].job +
                                      (chosen ? " has no such metrics; \"dlctl metrics\" without a choice shows all"
                                              : " has no metrics yet: lines such as \"step 10: loss=0.33\" in the "
                                                "output of learner 0 are recognised; see dlctl(1), metrics")};
  }
  std::fputs(metrics_table(jobs, superseded).c_str(), stdout);
  return {};
}

}  // namespace

Run add_metrics(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("JOB", &options->jobs, "job ids, or paths of job directories; several are compared").required();
  line->option("--name", &options->choice.name, "only this metric, such as loss or 'acc*'").form("NAME");
  line->option("--group", &options->choice.group, "only this group, such as train, validate or test").form("GROUP");
  line->option("--rank", &options->rank, "only of this rank").form("R").between(0, 999999);
  line->flag("--all", &options->choice.superseded, "with the points that later attempts have superseded");
  line->flag("--csv", &options->csv, "all points, one a line");
  line->flag("--json", &options->json, "all points, for programs");
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
