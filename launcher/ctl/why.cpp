// SPDX-License-Identifier: Apache-2.0
// dlctl why JOB: what a job waits for, who holds it, and what would have to end.
#include "slurm-plugin/policy/why.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "launcher/common/parse.h"
#include "launcher/ctl/cluster_now.h"
#include "launcher/ctl/quota_table.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct Options {
  std::string job;
  bool json = false;
};

// A job of which nothing is decided: what it waits for is Slurm's to say.
Status not_decided(const ClusterNow& now, int64_t id) {
  for (const observe::SeenJob& seen : now.view.aside) {
    if (now.records.jobs[seen.record].id != id) continue;
    return Error{Errc::kConflict, fmt::format("job {} is held, or waits for its begin time, a dependency or a limit of "
                                              "Slurm's: squeue --job={} says which",
                                              id, id)};
  }
  return Error{
      Errc::kNotFound,
      fmt::format("job {} is no job of a tenant's that runs or waits for GPUs: squeue --job={} may know more", id, id)};
}

Status run(const Options& options) {
  const auto id = parse_int(options.job, 1, UINT32_MAX);
  if (!id) return Error(id.error()).with_context("JOB");
  DL_TRY_ASSIGN(const ClusterNow now, look_at_cluster());
  const int job = now.find(*id);
  if (job < 0) return not_decided(now, *id);
  const policy::ClusterState& state = now.view.state;
  const policy::Why why = policy::why(state, now.decision, job);
  if (options.json) {
    nlohmann::json json = {{"job", *id},
                           {"why", why.sentence},
                           {"can_ever_run", why.can_ever_run},
                           {"unused_gpus", state.jobs[job].idle_gpus}};
    json["would_have_to_end"] = nlohmann::json::array();
    for (const int other : why.would_have_to_end)
      json["would_have_to_end"].push_back(
          {{"job", state.jobs[other].id},
           {"tenant", state.tenants[state.jobs[other].tenant].name},
           {"gpus", state.jobs[other].gpus()},
           {"charge", state.jobs[other].charge == policy::Charge::kOwn ? "own" : "borrowed"}});
    std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return {};
  }
  std::printf("%s\n", printable(why.sentence, 1000).c_str());
  if (state.jobs[job].idle_gpus > 0) std::printf("%s\n", unused_text(state, state.jobs[job]).c_str());
  for (const int other : why.would_have_to_end) {
    const policy::Job& holder = state.jobs[other];
    std::printf("  job %lld of '%s' holds %d GPUs as %s\n", static_cast<long long>(holder.id),
                state.tenants[holder.tenant].name.c_str(), holder.gpus(),
                holder.charge == policy::Charge::kOwn ? "its own" : "borrowed ones");
  }
  return {};
}

}  // namespace

Run add_why(CLI::App* app) {
  auto options = std::make_shared<Options>();
  app->add_option("JOB", options->job, "job id")->required();
  app->add_flag("--json", options->json, "for programs");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
