// SPDX-License-Identifier: Apache-2.0
// dlctl grow JOB: has dlrun ask Slurm for more nodes, on which the learners of a running job go on, too.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/control_client.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct GrowOptions {
  std::string job, dir, nodes = "1";
};

// dlrun submits a job before it answers, and slurmctld may be slow.
constexpr std::chrono::seconds kPatience{45};

Status run(const GrowOptions& options) {
  const auto nodes = parse_int(options.nodes, 1, 10000);
  if (!nodes) return Error(nodes.error()).with_context("--nodes");
  DL_TRY_ASSIGN(const std::vector<Job> jobs, find_jobs(options.job, options.dir));
  DL_TRY(act_as_owner(jobs.front()));
  if (jobs.size() > 1)
    return Error{Errc::kConflict,
                 "job " + options.job + " is an array; allowed: one of its elements, as in " + jobs.front().id};
  const Job& job = jobs.front();
  DL_TRY(check_owner(job));
  DL_TRY_ASSIGN(const protocol::ControlMessage answer,
                ask_dlrun(job, protocol::Grow{static_cast<int>(*nodes)}, kPatience));
  const auto* reply = std::get_if<protocol::Reply>(&answer);
  if (reply == nullptr)
    return Error{Errc::kInternal,
                 "dlrun gave an answer to another question; dlctl and dlrun must be of one version of slurm-dl"};
  if (!reply->ok) return Error{Errc::kConflict, printable(reply->text, 500)};
  std::printf("job %s: %s\n", job.id.c_str(), printable(reply->text, 500).c_str());
  return {};
}

}  // namespace

Run add_grow(CommandLine* line) {
  auto options = std::make_shared<GrowOptions>();
  line->argument("JOB", &options->job, "job id of an elastic job that runs, or path of its job directory").required();
  line->option("--nodes", &options->nodes, "how many more nodes").form("N").shows_default();
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
