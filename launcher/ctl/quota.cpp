// SPDX-License-Identifier: Apache-2.0
// dlctl quota: how many GPUs each tenant owns, uses, lends and borrows, now or with --history in the past; and dlctl
// quota reclaim --dry-run JOB: which GPUs would be taken back for a job, and why these.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/cluster_now.h"
#include "launcher/ctl/leaving.h"
#include "launcher/ctl/quota_history.h"
#include "launcher/ctl/quota_sync.h"
#include "launcher/ctl/quota_table.h"
#include "launcher/ctl/subcommand.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/why.h"

namespace dl::ctl {
namespace {

struct QuotaOptions {
  bool json = false;
  bool dry_run = false;
  std::string job;
  HistoryOptions history;
  CommandLine* reclaim = nullptr;
};

Status show(const QuotaOptions& options) {
  DL_TRY_ASSIGN(const ClusterNow now, look_at_cluster());
  const policy::ClusterState& state = now.view.state;
  const auto rows = policy::quota_rows(state);
  const std::string text = options.json
                               ? quota_json(rows, state, now.view.uncharged)
                               : quota_text(rows, ::isatty(STDOUT_FILENO) != 0) + groups_text(state) +
                                     free_text(state) + uncharged_text(now.view.uncharged) + unused_text(state);
  std::fputs(text.c_str(), stdout);
  return {};
}

const policy::Reclaim* reclaim_for(const ClusterNow& now, int job) {
  for (const policy::Reclaim& reclaim : now.decision.reclaims)
    if (reclaim.claimant == job) return &reclaim;
  return nullptr;
}

std::string runs_on(const policy::Job& job) {
  if (job.charge == policy::Charge::kOwn) return "its tenant's own";
  const int own = job.own_of(job.gpus());
  return own == 0 ? "borrowed" : fmt::format("{} of its tenant's own and {} borrowed", own, job.gpus() - own);
}

std::string victim_text(const ClusterNow& now, const policy::Victim& victim) {
  const policy::ClusterState& state = now.view.state;
  const policy::Job& job = state.jobs[victim.job];
  const std::string what =
      victim.learners_left == 0
          ? "stops and gives " + count_text(job.gpus(), "GPU")
          : fmt::format("shrinks to {} and gives {}", count_text(victim.learners_left, "learner"),
                        count_text((job.learners() - victim.learners_left) * job.gpus_per_learner, "GPU"));
  return fmt::format("job {} of '{}' {}: runs on {} GPUs for {} s; {:.2f} GPU-hours of work are at risk; {}",
                     policy::job_name(job.id), state.tenants[job.tenant].name, what, runs_on(job),
                     state.now_s - job.start_s, static_cast<double>(victim.lost_gpu_s) / 3600,
                     what_becomes_of(now, victim.job));
}

Json victim_json(const ClusterNow& now, const policy::Victim& victim) {
  const policy::Job& job = now.view.state.jobs[victim.job];
  Json json = job_json(job.id);
  json["tenant"] = now.view.state.tenants[job.tenant].name;
  json["gpus"] = (job.learners() - victim.learners_left) * job.gpus_per_learner;
  json["learners_left"] = victim.learners_left;
  json["lost_gpu_s"] = victim.lost_gpu_s;
  return json;
}

Status reclaim(const QuotaOptions& options) {
  if (!options.dry_run)
    return Error{Errc::kInvalid,
                 "GPUs are taken back by dlpolicyd alone; allowed: --dry-run, which tells what it does"};
  DL_TRY_ASSIGN(const int64_t id, parse_job_option(options.job));
  DL_TRY_ASSIGN(const ClusterNow now, look_at_cluster());
  const int job = now.find(id);
  if (job < 0)
    return Error{
        Errc::kNotFound,
        fmt::format("job {} is not a job of a tenant that runs or waits for GPUs; allowed: one that dlctl quota counts",
                    policy::job_name(id))};
  const policy::Reclaim* found = reclaim_for(now, job);
  const policy::Why why = policy::why(now.view.state, now.decision, job);
  if (options.json) {
    Json json = job_json(id);
    json["why"] = why.sentence;
    json["victims"] = Json::array();
    json["leaving"] = Json::array();
    for (const std::string& line : leaving_for(now, job)) json["leaving"].push_back(line);
    if (found != nullptr) {
      for (const policy::Victim& victim : found->set.victims) json["victims"].push_back(victim_json(now, victim));
      json["exact"] = found->set.exact;
    }
    std::printf("%s\n", json.dump_sorted(2).c_str());
    return {};
  }
  std::printf("%s\n", printable(why.sentence, 1000).c_str());
  const std::vector<std::string> leaving = leaving_for(now, job);
  for (const std::string& line : leaving) std::printf("  %s\n", line.c_str());
  if (found == nullptr) {
    if (leaving.empty()) std::printf("no GPUs are taken back for this job now\n");
    return {};
  }
  for (const policy::Victim& victim : found->set.victims) std::printf("  %s\n", victim_text(now, victim).c_str());
  std::printf("no other set of jobs that %s and makes room loses less%s\n",
              why.waiting.within_tenant ? "gives way to a guaranteed one" : "runs on borrowed GPUs",
              found->set.exact ? "" : " (as far as was searched)");
  return {};
}

}  // namespace

Run add_quota(CommandLine* line) {
  auto options = std::make_shared<QuotaOptions>();
  line->flag("--json", &options->json, "for programs");
  add_history_options(line, &options->history);
  CommandLine* sub = line->subcommand("reclaim", "which jobs would give GPUs back for a claim, and why");
  sub->argument("JOB", &options->job, "the job that waits").required();
  sub->flag("--dry-run", &options->dry_run, "only show it; required, since only dlpolicyd takes GPUs back");
  sub->flag("--json", &options->json, "for programs");
  options->reclaim = sub;
  CommandLine* sync =
      line->subcommand("sync", "write the licences, accounts and limits of dl.toml's tenants into Slurm");
  return [options, sync, run_sync = add_quota_sync(sync)] {
    if (sync->chosen()) return run_sync();
    const HistoryOptions& history = options->history;
    if (history.history || history.csv || history.given) return show_history(history, options->json);
    return options->reclaim->chosen() ? reclaim(*options) : show(*options);
  };
}

}  // namespace dl::ctl
