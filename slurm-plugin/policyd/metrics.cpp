// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/metrics.h"

#include <fmt/core.h>

#include <map>
#include <set>

#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/free_gpus.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policyd/exposition.h"

namespace dl::policyd {
namespace {

using policy::ClusterState;

void tenants(const ClusterState& state, std::string* text) {
  const policy::Ledger ledger(state);
  std::vector<int> pending(state.tenants.size());
  for (const policy::Job& job : state.jobs)
    if (!job.running) pending[job.tenant] += job.min_learners * job.gpus_per_learner;
  struct TenantRow {
    const char* name;
    const char* help;
    double (*value)(const ClusterState&, const policy::Ledger&, int);
  };
  const TenantRow rows[] = {
      {"dl_tenant_quota_gpus", "GPUs that are the tenant's own at any time.",
       [](const ClusterState& s, const policy::Ledger&, int t) { return double(s.tenants[t].quota.total()); }},
      {"dl_tenant_own_gpus", "GPUs held within the quota.",
       [](const ClusterState&, const policy::Ledger& l, int t) { return double(l.own(t)); }},
      {"dl_tenant_borrowed_gpus", "GPUs held beyond the quota.",
       [](const ClusterState&, const policy::Ledger& l, int t) { return double(l.borrowed(t)); }},
      {"dl_tenant_idle_quota_gpus", "GPUs of the quota that the tenant does not use.",
       [](const ClusterState&, const policy::Ledger& l, int t) { return double(l.idle_quota(t)); }},
      {"dl_tenant_recent_gpu_seconds", "Decayed use beyond the quota.",
       [](const ClusterState& s, const policy::Ledger&, int t) { return s.tenants[t].recent_gpu_s; }},
  };
  for (const TenantRow& row : rows) {
    begin_metric(text, row.name, "gauge", row.help);
    for (size_t i = 0; i < state.tenants.size(); ++i)
      *text += fmt::format("{}{{tenant={}}} {}\n", row.name, label_value(state.tenants[i].name),
                           row.value(state, ledger, static_cast<int>(i)));
  }
  begin_metric(text, "dl_tenant_pending_gpus", "gauge", "GPUs that waiting jobs ask for, at their smallest size.");
  for (size_t i = 0; i < state.tenants.size(); ++i)
    *text += fmt::format("dl_tenant_pending_gpus{{tenant={}}} {}\n", label_value(state.tenants[i].name), pending[i]);
}

void cluster(const ClusterState& state, std::string* text) {
  const policy::FreeGpus free(state);
  std::vector<int> capacity(state.types.size()), used(state.types.size()), waiting(state.types.size() + 1);
  for (const policy::Node& node : state.nodes) capacity[node.type] += node.gpus;
  for (const policy::Job& job : state.jobs) {
    if (job.running) used[state.type_held(job)] += job.gpus();
    if (!job.running) ++waiting[job.type == policy::kAnyType ? state.types.size() : static_cast<size_t>(job.type)];
  }
  const auto gauge = [&](const char* name, const char* help, const auto& value) {
    begin_metric(text, name, "gauge", help);
    for (size_t i = 0; i < state.types.size(); ++i)
      *text += fmt::format("{}{{gpu_type={}}} {}\n", name, label_value(state.types[i]), value(i));
  };
  gauge("trainer_cluster_wide_gpu_usage", "GPUs in use by jobs of tenants.", [&](size_t i) { return used[i]; });
  gauge("dl_gpus", "GPUs of the nodes, without those of jobs that are not ours.",
        [&](size_t i) { return capacity[i]; });
  gauge("dl_free_gpus", "GPUs that may be given out now.", [&](size_t i) { return free.total(static_cast<int>(i)); });
  const std::vector<policy::FreeOfType> of = policy::free_by_type(state);
  gauge("dl_largest_free_gpus", "Free GPUs of the node that has most.", [&](size_t i) { return of[i].most; });
  gauge("dl_kept_gpus", "GPUs not in use on nodes where nothing may start: spares, drained or down.",
        [&](size_t i) { return of[i].kept; });
  std::set<int> switches;
  for (const policy::Node& node : state.nodes) switches.insert(node.leaf_switch);
  begin_metric(text, "dl_leaf_switches", "gauge",
               "Switches that nodes with GPUs hang on, as far as Slurm's topology tells.");
  *text += fmt::format("dl_leaf_switches {}\n", switches.size());
  begin_metric(text, "dl_fragmentation", "gauge", "Share of the free GPUs that no learner of so many GPUs can use.");
  for (size_t i = 0; i < state.types.size(); ++i)
    for (const auto& [size, share] : of[i].by_size)
      *text += fmt::format("dl_fragmentation{{gpu_type={},learner_gpus=\"{}\"}} {}\n", label_value(state.types[i]),
                           size, share);
  begin_metric(text, "trainer_queue_size", "gauge", "Waiting jobs.");
  for (size_t i = 0; i < state.types.size(); ++i)
    *text += fmt::format("trainer_queue_size{{gpu_type={}}} {}\n", label_value(state.types[i]), waiting[i]);
  *text += fmt::format("trainer_queue_size{{gpu_type=\"any\"}} {}\n", waiting.back());
}

void idle(const ClusterState& state, std::string* text) {
  std::vector<int> of_tenant(state.tenants.size());
  begin_metric(text, "dl_job_idle_gpus", "gauge",
               "GPUs that a job holds and has not used for longer than [idle] after.");
  for (const policy::Job& job : state.jobs) {
    if (!job.running || job.idle_gpus == 0) continue;
    of_tenant[job.tenant] += job.idle_gpus;
    *text += fmt::format("dl_job_idle_gpus{{job_id=\"{}\",tenant={}}} {}\n", policy::job_name(job.id),
                         label_value(state.tenants[job.tenant].name), job.idle_gpus);
  }
  begin_metric(text, "dl_tenant_idle_gpus", "gauge", "The same of all jobs of a tenant.");
  for (size_t i = 0; i < state.tenants.size(); ++i)
    *text += fmt::format("dl_tenant_idle_gpus{{tenant={}}} {}\n", label_value(state.tenants[i].name), of_tenant[i]);
}

void uncharged(const observe::ClusterView& view, std::string* text) {
  struct Sum {
    int gpus = 0;
    int waiting = 0;
  };
  std::map<std::string, Sum> by_tenant;
  for (const observe::Uncharged& job : view.uncharged) {
    by_tenant[job.label.tenant].gpus += job.gpus;
    by_tenant[job.label.tenant].waiting += job.gpus == 0 ? 1 : 0;
  }
  begin_metric(text, "dl_uncharged_gpus", "gauge",
               "GPUs held by jobs of a tenant that dl.toml does not declare any more.");
  for (const auto& [tenant, sum] : by_tenant)
    *text += fmt::format("dl_uncharged_gpus{{tenant={}}} {}\n", label_value(tenant), sum.gpus);
  begin_metric(text, "dl_uncharged_waiting_jobs", "gauge", "Jobs of such a tenant that wait; they are held.");
  for (const auto& [tenant, sum] : by_tenant)
    *text += fmt::format("dl_uncharged_waiting_jobs{{tenant={}}} {}\n", label_value(tenant), sum.waiting);
}

void reasons(const policy::Decision& decision, std::string* text) {
  int claims = 0;
  for (const policy::Waiting& waiting : decision.waiting)
    if (waiting.reason == policy::Reason::kVictimsLeaving || waiting.reason == policy::Reason::kVictimsProtected)
      ++claims;
  begin_metric(text, "dl_waiting_claims", "gauge", "Jobs within quota that wait for lent GPUs to come back.");
  *text += fmt::format("dl_waiting_claims {}\n", claims);
}

}  // namespace

void count_action(ActionKind kind, Totals* totals) {
  ++totals->updates;
  totals->asked += kind == ActionKind::kYield ? 1 : 0;
  totals->requeued += kind == ActionKind::kRequeue ? 1 : 0;
  totals->put_back += kind == ActionKind::kPutBack ? 1 : 0;
  totals->ended += kind == ActionKind::kEnd ? 1 : 0;
  totals->returned += kind == ActionKind::kReturn ? 1 : 0;
  totals->dropped += kind == ActionKind::kDrop ? 1 : 0;
  totals->withdrawn += kind == ActionKind::kWithdraw ? 1 : 0;
}

void count_failure(Errc code, Totals* totals) {
  if (code == Errc::kConflict || code == Errc::kNotFound) return;
  if (code == Errc::kDenied)
    ++totals->denied;
  else if (code == Errc::kBusy)
    ++totals->unreachable;
  else
    ++totals->refused;
}

std::string metrics_text(const observe::ClusterView& view, const policy::Decision& decision, const Totals& totals) {
  std::string text;
  tenants(view.state, &text);
  cluster(view.state, &text);
  idle(view.state, &text);
  uncharged(view, &text);
  reasons(decision, &text);
  const std::pair<const char*, int64_t> counters[] = {{"asked", totals.asked},       {"requeued", totals.requeued},
                                                      {"put_back", totals.put_back}, {"ended", totals.ended},
                                                      {"returned", totals.returned}, {"withdrawn", totals.withdrawn}};
  begin_metric(&text, "dl_reclaims_total", "counter", "What became of jobs on borrowed GPUs that a claim needed.");
  for (const auto& [what, count] : counters) text += fmt::format("dl_reclaims_total{{what=\"{}\"}} {}\n", what, count);
  begin_metric(&text, "dl_dropped_jobs_total", "counter",
               "Waiting jobs that dlpolicyd ended, since there was no room for them ([elastic] admission).");
  text += fmt::format("dl_dropped_jobs_total {}\n", totals.dropped);
  begin_metric(&text, "dl_policyd_last_round_seconds", "gauge", "When dlpolicyd last saw the cluster.");
  text += fmt::format("dl_policyd_last_round_seconds {}\n", view.state.now_s);
  begin_metric(&text, "dl_policyd_round_seconds", "gauge", "How long dlpolicyd's last whole round took.");
  text += fmt::format("dl_policyd_round_seconds {:.4f}\n", totals.round_s);
  begin_metric(&text, "dl_policyd_updates_total", "counter",
               "Changes that dlpolicyd made to jobs, each a message to slurmctld.");
  text += fmt::format("dl_policyd_updates_total {}\n", totals.updates);
  const std::pair<const char*, int64_t> failures[] = {
      {"denied", totals.denied}, {"unreachable", totals.unreachable}, {"refused", totals.refused}};
  begin_metric(&text, "dl_policyd_failed_updates_total", "counter", "Changes to jobs that slurmctld did not make.");
  for (const auto& [reason, count] : failures)
    text += fmt::format("dl_policyd_failed_updates_total{{reason=\"{}\"}} {}\n", reason, count);
  begin_metric(&text, "dl_policyd_late_changes", "gauge", "Changes to jobs for which the last round had no time.");
  text += fmt::format("dl_policyd_late_changes {}\n", totals.changes_late);
  begin_metric(&text, "dl_policyd_later_gates", "gauge",
               "Gates that are set later, of jobs that cannot start before others that may.");
  text += fmt::format("dl_policyd_later_gates {}\n", totals.gates_later);
  begin_metric(&text, "dl_policyd_config_in_force", "gauge", "1 if dlpolicyd goes by dl.toml as it is now, 0 if not.");
  text += fmt::format("dl_policyd_config_in_force {}\n", totals.config_in_force ? 1 : 0);
  return text;
}

}  // namespace dl::policyd
