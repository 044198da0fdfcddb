// SPDX-License-Identifier: Apache-2.0
// dlctl status [JOB...]: one job in full, or a line for each.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "common/process/child_process.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

struct Options {
  std::vector<std::string> jobs;
  std::string dir;
  bool all = false;
  bool json = false;
};

std::string with_unused_gpus(std::string why, const JobView& view) {
  const int gpus = unused_gpus(view).gpus;
  if (gpus > 0) why += fmt::format("{}{} GPU{} not used", why.empty() ? "" : "; ", gpus, gpus == 1 ? "" : "s");
  return why;
}

void print_lines(const std::vector<JobView>& views, bool with_user) {
  const int64_t now = now_ms();
  std::vector<std::vector<std::string>> rows{{"JOB", "NAME", "STATE", "SINCE", "ATTEMPT", "STEP", "LEARNERS", "WHY"}};
  if (with_user) rows[0].insert(rows[0].begin() + 1, "USER");
  for (const JobView& view : views) {
    std::vector<std::string> row = {view.job.id,
                                    view.name.empty() ? "-" : printable(view.name, 24),
                                    shown_name(view.shown),
                                    view.shown.since_ms ? age_text(now - *view.shown.since_ms) : "-",
                                    view.attempt > 0 ? std::to_string(view.attempt) : "-",
                                    view.step < 0 ? "-" : std::to_string(view.step),
                                    view.plan.learners > 0 ? std::to_string(view.plan.learners) : "-",
                                    with_unused_gpus(printable(view.shown.reason, 60), view)};
    if (with_user) row.insert(row.begin() + 1, printable(view.user, 16));
    rows.push_back(std::move(row));
  }
  std::fputs(table(rows).c_str(), stdout);
}

void print_json(const std::vector<JobView>& views) {
  Json json = Json::array();
  for (const JobView& view : views) json.push_back(view_json(view));
  std::puts(json.dump(2).c_str());
}

Status run(const Options& options) {
  std::vector<JobView> views;
  if (options.jobs.empty() && options.dir.empty()) {
    if (find_program("squeue").empty()) {
      return Error{Errc::kNotFound,
                   "Slurm's commands are not installed here; name a job directory: dlctl status dl-local-..."};
    }
    DL_TRY_ASSIGN(const std::vector<slurm_cli::JobInfo> jobs, slurm_cli::list_jobs(options.all ? "*" : ""));
    for (const slurm_cli::JobInfo& info : jobs) views.push_back(view_job(job_of(info), false));
    if (options.json) {
      print_json(views);
    } else if (views.empty()) {
      std::puts(options.all ? "no job is queued or running"
                            : "you have no job queued or running (all users: dlctl status --all)");
    } else {
      print_lines(views, options.all);
    }
    return {};
  }
  std::vector<std::string> references = options.jobs;
  if (references.empty()) references.push_back(options.dir);
  std::vector<std::vector<JobView>> found;  // by reference: several of a job array
  for (const std::string& reference : references) {
    DL_TRY_ASSIGN(const std::vector<Job> jobs, find_jobs(reference, options.dir));
    found.emplace_back();
    for (const Job& job : jobs) found.back().push_back(view_job(job, true));
  }
  if (options.json) {
    for (std::vector<JobView>& some : found) std::move(some.begin(), some.end(), std::back_inserter(views));
    print_json(views);
    return {};
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0) std::fputs("\n", stdout);
    if (found[i].size() == 1)
      std::fputs(view_text(found[i].front()).c_str(), stdout);
    else
      print_lines(found[i], false);
  }
  return {};
}

}  // namespace

Run add_status(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("JOB", &options->jobs, "job id, local-..., or path of a job directory; none: your jobs in the queue");
  line->option("--dir", &options->dir, "its job directory, where Slurm does not know it any more").form("DIR");
  line->flag("--all", &options->all, "without JOB: the jobs of all users");
  line->flag("--json", &options->json, "for programs: an array of objects");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
