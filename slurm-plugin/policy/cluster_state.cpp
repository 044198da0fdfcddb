// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/cluster_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace dl::policy {
namespace {

Error invalid(std::string text) {
  return Error{Errc::kInvalid, std::move(text)};
}

// A product of two positive numbers that may be of any size.
bool at_most(int a, int b, int most) {
  return static_cast<int64_t>(a) * b <= most;
}

bool on_the_clock(int64_t at_s) {
  return -kFarthestS <= at_s && at_s <= kFarthestS;
}

// A moment or a time span of a job's, as messages name it.
struct NamedTime {
  const char* name;
  int64_t s;
};

// `whose`: as messages name it.
Status check_counts(const std::string& whose, const char* what, const GpuCounts& counts, int types) {
  if (static_cast<int>(counts.by_type.size()) > types)
    return invalid(
        fmt::format("{}: {} names {} GPU types; the cluster has {}", whose, what, counts.by_type.size(), types));
  if (counts.any < 0 || std::any_of(counts.by_type.begin(), counts.by_type.end(), [](int n) { return n < 0; }))
    return invalid(fmt::format("{}: {} is negative; allowed: 0 or more GPUs", whose, what));
  if (counts.any > kMostGpus ||
      std::any_of(counts.by_type.begin(), counts.by_type.end(), [](int n) { return n > kMostGpus; }))
    return invalid(
        fmt::format("{}: {} is more than {} GPUs, which is the most that is allowed", whose, what, kMostGpus));
  return {};
}

// Groups lie in one another without end, or a typed quota is one for jobs that no type is known of any more.
Status check_groups(const ClusterState& state) {
  const int groups = static_cast<int>(state.groups.size());
  const auto typed = [&](int group) {
    return std::any_of(state.groups[group].quota.by_type.begin(), state.groups[group].quota.by_type.end(),
                       [](int gpus) { return gpus > 0; });
  };
  for (int i = 0; i < groups; ++i) {
    const Group& group = state.groups[i];
    DL_TRY(check_counts("group '" + group.name + "'", "quota", group.quota, state.type_count()));
    if (group.parent < kNobody || group.parent >= groups)
      return invalid(fmt::format("group '{}': the group {} that it lies in does not exist", group.name, group.parent));
    int steps = 0;
    for (int above = group.parent; above >= 0; above = state.groups[above].parent) {
      if (++steps >= groups) return invalid(fmt::format("group '{}' lies in itself", group.name));
      if (group.quota.any > 0 && typed(above))
        return invalid(
            fmt::format("group '{}' owns GPUs of any type, and lies in group '{}', which owns some of a type; "
                        "allowed: quotas by type alone below such a group",
                        group.name, state.groups[above].name));
    }
  }
  for (const Tenant& tenant : state.tenants)
    for (int above = tenant.group; above >= 0 && above < groups; above = state.groups[above].parent)
      if (tenant.quota.any > 0 && typed(above))
        return invalid(
            fmt::format("tenant '{}' owns GPUs of any type, and lies in group '{}', which owns some of a type; "
                        "allowed: quotas by type alone below such a group",
                        tenant.name, state.groups[above].name));
  return {};
}

Status check_tenant(const Tenant& tenant, int types) {
  DL_TRY(check_counts("tenant '" + tenant.name + "'", "quota", tenant.quota, types));
  if (tenant.lend) DL_TRY(check_counts("tenant '" + tenant.name + "'", "lending limit", *tenant.lend, types));
  if (!(tenant.weight >= 0 && tenant.weight <= 1e6))
    return invalid(fmt::format("tenant '{}': weight {} is not from 0 to 1000000", tenant.name, tenant.weight));
  if (!(tenant.recent_gpu_s >= 0))
    return invalid(fmt::format("tenant '{}': its recent use is {} GPU-seconds; allowed: 0 or more", tenant.name,
                               tenant.recent_gpu_s));
  if (tenant.borrow_limit < kNoLimit || tenant.max_job_gpus < kNoLimit || tenant.max_user_gpus < kNoLimit)
    return invalid(
        fmt::format("tenant '{}': borrow_limit {}, max_job_gpus {}, max_user_gpus {}; allowed: 0 or more, or -1 "
                    "for none",
                    tenant.name, tenant.borrow_limit, tenant.max_job_gpus, tenant.max_user_gpus));
  return {};
}

// Each quota is bounded; so must be what all of them are together, since they are added up in many places.
Status check_sum_of_quotas(const ClusterState& state) {
  int64_t all = 0;
  const auto add = [&](const GpuCounts& quota) {
    all += quota.any;
    for (const int gpus : quota.by_type) all += gpus;
  };
  for (const Tenant& tenant : state.tenants) add(tenant.quota);
  for (const Group& group : state.groups) add(group.quota);
  if (all > kMostGpusInAll)
    return invalid(fmt::format("the quotas of all tenants and groups are {} GPUs together; allowed: up to {}", all,
                               kMostGpusInAll));
  return {};
}

Status check_request(const ClusterState& state, const Job& job) {
  if (job.tenant < 0 || job.tenant >= static_cast<int>(state.tenants.size()))
    return invalid(fmt::format("job {}: tenant {} does not exist", job.id, job.tenant));
  if (job.user < kNobody || job.user >= static_cast<int>(state.users.size()))
    return invalid(fmt::format("job {}: user {} does not exist", job.id, job.user));
  if (job.type < kAnyType || job.type >= state.type_count())
    return invalid(fmt::format("job {}: GPU type {} does not exist", job.id, job.type));
  if (job.gpus_per_learner < 1 || job.min_learners < 1 || job.max_learners < job.min_learners)
    return invalid(fmt::format("job {}: {} to {} learners of {} GPUs each; allowed: 1 or more, rising", job.id,
                               job.min_learners, job.max_learners, job.gpus_per_learner));
  if (!at_most(job.gpus_per_learner, job.max_learners, kMostJobGpus))
    return invalid(fmt::format("job {}: {} learners of {} GPUs each are more than {} GPUs", job.id, job.max_learners,
                               job.gpus_per_learner, kMostJobGpus));
  for (const NamedTime& time : {NamedTime{"its restart", job.restart_s},
                                {"its minimum run time", job.min_run_s},
                                {"its time limit", job.limit_s}}) {
    if (time.s < 0 || time.s > kLongestS)
      return invalid(fmt::format("job {}: {} takes {} s; allowed: 0 to {} s", job.id, time.name, time.s, kLongestS));
  }
  if (!on_the_clock(job.nice)) return invalid(fmt::format("job {}: its nice is {}", job.id, job.nice));
  for (const NamedTime& time : {NamedTime{"its submission", job.submit_s},
                                {"its start", job.start_s},
                                {"its last checkpoint", job.checkpoint_s},
                                {"its idleness", job.idle_since_s}}) {
    if (!on_the_clock(time.s))
      return invalid(
          fmt::format("job {}: {} was at {} s; allowed: {} to {} s since the epoch, or the trace's beginning", job.id,
                      time.name, time.s, -kFarthestS, kFarthestS));
  }
  return {};
}

Status check_promise(const ClusterState& state, const Job& job) {
  for (const Part& part : job.promised_parts) {
    if (part.node < 0 || part.node >= static_cast<int>(state.nodes.size()) || part.learners < 1 ||
        part.learners > job.min_learners)
      return invalid(fmt::format("job {} was promised {} learners on node {}", job.id, part.learners, part.node));
    if (state.nodes[part.node].type != state.nodes[job.promised_parts.front().node].type)
      return invalid(fmt::format("job {} was promised GPUs of two types", job.id));
  }
  return {};
}

Status check_parts(const ClusterState& state, const Job& job, std::vector<int>* held) {
  if (!job.running) {
    if (!job.parts.empty()) return invalid(fmt::format("job {} is pending and holds nodes", job.id));
    return check_promise(state, job);
  }
  std::set<int> seen;
  for (const Part& part : job.parts) {
    if (part.node < 0 || part.node >= static_cast<int>(state.nodes.size()) || part.learners < 1)
      return invalid(fmt::format("job {}: {} learners on node {}", job.id, part.learners, part.node));
    if (!seen.insert(part.node).second) return invalid(fmt::format("job {}: node {} twice", job.id, part.node));
    if (state.nodes[part.node].type != state.nodes[job.parts.front().node].type)
      return invalid(fmt::format("job {} has GPUs of two types", job.id));
    if (!at_most(part.learners, job.gpus_per_learner, state.nodes[part.node].gpus - (*held)[part.node]))
      return invalid(fmt::format("node '{}' has {} GPUs, and jobs hold {}", state.nodes[part.node].name,
                                 state.nodes[part.node].gpus,
                                 (*held)[part.node] + static_cast<int64_t>(part.learners) * job.gpus_per_learner));
    (*held)[part.node] += part.learners * job.gpus_per_learner;
  }
  if (job.learners() < job.min_learners || job.learners() > job.max_learners)
    return invalid(fmt::format("job {} runs with {} learners; allowed: {} to {}", job.id, job.learners(),
                               job.min_learners, job.max_learners));
  if (job.own_part < 0)
    return invalid(fmt::format("job {} has {} GPUs of its tenant's own; allowed: 0 or more", job.id, job.own_part));
  if (job.yields_to != kNobody && (job.yields_until_learners < 0 || job.yields_until_learners >= job.learners()))
    return invalid(fmt::format("job {} yields until it has {} of its {} learners", job.id, job.yields_until_learners,
                               job.learners()));
  return {};
}

}  // namespace

int GpuCounts::of(int type) const {
  return type >= 0 && type < static_cast<int>(by_type.size()) ? by_type[type] : 0;
}

int GpuCounts::total() const {
  int sum = any;
  for (const int n : by_type) sum += n;
  return sum;
}

double ClusterState::weight_of_type(int type) const {
  return type >= 0 && type < static_cast<int>(type_weight.size()) ? type_weight[type] : 1.0;
}

Status check(const ClusterState& state) {
  if (!on_the_clock(state.now_s))
    return invalid(fmt::format("it is {} s; allowed: {} to {} s since the epoch, or the trace's beginning", state.now_s,
                               -kFarthestS, kFarthestS));
  for (const NamedTime& time : {NamedTime{"most_unsaved", state.most_unsaved_s},
                                {"most_restart", state.most_restart_s},
                                {"patience", state.patience_s}}) {
    if (time.s < 0 || time.s > kLongestS)
      return invalid(fmt::format("[quota] {} is {} s; allowed: 0 to {} s", time.name, time.s, kLongestS));
  }
  int64_t all = 0;
  for (const Node& node : state.nodes) {
    if (node.type < 0 || node.type >= state.type_count() || node.gpus < 0 || node.gpus > kMostGpus)
      return invalid(fmt::format("node '{}': {} GPUs of type {}; allowed: 0 to {} GPUs of one of {} types", node.name,
                                 node.gpus, node.type, kMostGpus, state.type_count()));
    all += node.gpus;
  }
  if (all > kMostGpusInAll)
    return invalid(fmt::format("the nodes have {} GPUs; allowed: up to {}", all, kMostGpusInAll));
  for (const Tenant& tenant : state.tenants) DL_TRY(check_tenant(tenant, state.type_count()));
  DL_TRY(check_groups(state));
  DL_TRY(check_sum_of_quotas(state));
  std::vector<int> held(state.nodes.size());
  for (size_t i = 0; i < std::min(state.first_running, state.jobs.size()); ++i)
    if (state.jobs[i].running || !state.jobs[i].parts.empty())
      return invalid(fmt::format("job {} runs, and the list puts the first job that runs at number {}",
                                 state.jobs[i].id, state.first_running + 1));
  for (const Job& job : state.jobs) {
    DL_TRY(check_request(state, job));
    DL_TRY(check_parts(state, job, &held));
  }
  return {};
}

std::vector<std::string> oversubscribed(const ClusterState& state) {
  std::vector<int> has(state.types.size());
  std::vector<int> promised(state.types.size());
  int has_all = 0;
  int promised_all = 0;
  for (const Node& node : state.nodes) {
    has[node.type] += node.gpus;
    has_all += node.gpus;
  }
  const auto add = [&](const GpuCounts& quota) {
    for (int type = 0; type < state.type_count(); ++type) promised[type] += quota.of(type);
    promised_all += quota.total();
  };
  for (const Tenant& tenant : state.tenants) add(tenant.quota);
  for (const Group& group : state.groups) add(group.quota);
  std::vector<std::string> found;
  for (int type = 0; type < state.type_count(); ++type) {
    if (promised[type] > has[type])
      found.push_back(fmt::format("tenants have a quota of {} GPUs of type '{}'; the nodes have {}", promised[type],
                                  state.types[type], has[type]));
  }
  if (promised_all > has_all)
    found.push_back(fmt::format("tenants have a quota of {} GPUs in all; the nodes have {}", promised_all, has_all));
  return found;
}

}  // namespace dl::policy
