// SPDX-License-Identifier: Apache-2.0
// dlctl why JOB: what a job waits for, who holds it, and what would have to end.
#include "slurm-plugin/policy/why.h"
#include "common/json/json.h"

#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "common/base/parse.h"
#include "launcher/ctl/cluster_now.h"
#include "launcher/ctl/quota_table.h"
#include "launcher/ctl/subcommand.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::ctl {
namespace {

struct Options {
  std::string job;
  bool json = false;
};

std::string held_as(const policy::Job& holder) {
  const int own = holder.own_of(holder.gpus());
  if (own == holder.gpus()) return "its own";
  return own == 0 ? "borrowed ones" : fmt::format("{} its own and {} borrowed ones", own, holder.gpus() - own);
}

// A job of which nothing is decided: what it waits for is Slurm's to say.
Status not_decided(const ClusterNow& now, int64_t id) {
  for (const observe::SeenJob& seen : now.view.aside) {
    if (seen.id != id && policy::array_of(seen.id) != id) continue;
    return Error{Errc::kConflict, fmt::format("job {} is held, or waits for its begin time, a dependency or a limit of "
                                              "Slurm's: squeue --job={} says which",
                                              policy::job_name(id), policy::job_name(id))};
  }
  for (const observe::Uncharged& job : now.view.uncharged) {
    const observe::JobRecord& its = now.records.jobs[job.record];
    if (its.id != id && its.array != policy::array_of(id)) continue;
    return Error{
        Errc::kConflict,
        fmt::format("job {} is of tenant '{}', which is not in dl.toml any more: {}; an administrator declares "
                    "the tenant again, or scancel {} and submit it with another --account",
                    policy::job_name(id), printable(job.label.tenant),
                    job.gpus > 0 ? "it runs, and nobody is charged for its GPUs" : "it is held", policy::job_name(id))};
  }
  return Error{Errc::kNotFound,
               fmt::format("job {} is no job of a tenant's that runs or waits for GPUs: squeue --job={} may know more",
                           policy::job_name(id), policy::job_name(id))};
}

Status run(const Options& options) {
  DL_TRY_ASSIGN(const int64_t id, parse_job_option(options.job));
  DL_TRY_ASSIGN(const ClusterNow now, look_at_cluster());
  const int job = now.find(id);
  if (job < 0) return not_decided(now, id);
  const policy::ClusterState& state = now.view.state;
  const policy::Why why = policy::why(state, now.decision, job);
  if (options.json) {
    Json json = job_json(id);
    json["why"] = why.sentence;
    json["can_ever_run"] = why.can_ever_run;
    json["unused_gpus"] = state.jobs[job].idle_gpus;
    if (why.waiting.reserved_for >= 0) json["reserved_for"] = job_json(state.jobs[why.waiting.reserved_for].id);
    json["would_have_to_end"] = Json::array();
    for (const int other : why.would_have_to_end) {
      const policy::Job& holder = state.jobs[other];
      Json its = job_json(holder.id);
      its["tenant"] = state.tenants[holder.tenant].name;
      its["gpus"] = holder.gpus();
      its["charge"] = policy::charge_name(holder.charge);
      its["own_gpus"] = holder.own_of(holder.gpus());
      json["would_have_to_end"].push_back(std::move(its));
    }
    std::printf("%s\n", json.dump_sorted(2).c_str());
    return {};
  }
  std::printf("%s\n", printable(why.sentence, 1000).c_str());
  if (state.jobs[job].idle_gpus > 0) std::printf("%s\n", unused_text(state, state.jobs[job]).c_str());
  for (const int other : why.would_have_to_end) {
    const policy::Job& holder = state.jobs[other];
    std::printf("  job %s of '%s' holds %d GPUs as %s\n", policy::job_name(holder.id).c_str(),
                state.tenants[holder.tenant].name.c_str(), holder.gpus(), held_as(holder).c_str());
  }
  return {};
}

}  // namespace

Run add_why(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("JOB", &options->job, "job id").required();
  line->flag("--json", &options->json, "for programs");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
