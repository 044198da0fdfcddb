// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/admission.h"

#include <fmt/core.h>

#include <algorithm>

#include "slurm-plugin/policy/group_quota.h"

namespace dl::policy {
namespace {

Admission refused(Excess excess, int asked, int allowed, std::string sentence) {
  return Admission{excess, asked, allowed, std::move(sentence)};
}

// What tenants keep at all times and nobody can borrow: of one type, and in all. Without what `but` keeps.
int never_lent(const ClusterState& state, int type, const Tenant* but) {
  int kept = 0;
  for (const Tenant& tenant : state.tenants) {
    if (tenant.lend && &tenant != but) kept += std::max(0, tenant.quota.of(type) - tenant.lend->of(type));
  }
  return kept;
}

int never_lent_in_all(const ClusterState& state, const Tenant* but) {
  int kept = 0;
  for (int type = 0; type < state.type_count(); ++type) kept += never_lent(state, type, but);
  for (const Tenant& tenant : state.tenants) {
    if (tenant.lend && &tenant != but) kept += std::max(0, tenant.quota.any - tenant.lend->any);
  }
  return kept;
}

struct Capacity {
  int largest = 0;  // GPUs of one node
  int slots = 0;    // learners that the nodes hold
  int of_type = 0;
  int all = 0;
};

Capacity capacity_for(const ClusterState& state, const Job& job, int type) {
  Capacity sum;
  for (const Node& node : state.nodes) {
    sum.all += node.gpus;
    if (node.type != type) continue;
    sum.largest = std::max(sum.largest, node.gpus);
    sum.slots += node.gpus / job.gpus_per_learner;
    sum.of_type += node.gpus;
  }
  return sum;
}

Admission fits_nodes(const ClusterState& state, const Job& job, int type) {
  const std::string& name = state.types[type];
  const int asked = job.min_learners * job.gpus_per_learner;
  const Capacity nodes = capacity_for(state, job, type);
  const int largest = nodes.largest;
  const int slots = nodes.slots;
  if (job.gpus_per_learner > largest)
    return refused(Excess::kNodeGpus, job.gpus_per_learner, largest,
                   fmt::format("a learner with {} GPUs of type '{}' fits on no node; the largest has {}",
                               job.gpus_per_learner, name, largest));
  if (job.min_learners > slots)
    return refused(
        Excess::kClusterGpus, asked, slots * job.gpus_per_learner,
        fmt::format("{} learners with {} GPUs of type '{}' each need {} GPUs; all nodes together hold {} such "
                    "learners, {} GPUs",
                    job.min_learners, job.gpus_per_learner, name, asked, slots, slots * job.gpus_per_learner));
  return Admission{};
}

Admission admit_on(const ClusterState& state, const Job& job, int type) {
  const Tenant& tenant = state.tenants[job.tenant];
  const std::string& name = state.types[type];
  const int asked = job.min_learners * job.gpus_per_learner;
  if (state.nodes_known)
    if (Admission found = fits_nodes(state, job, type); !found.admitted()) return found;
  const int own = most_own(state, job.tenant, type);
  if (job.tier != Tier::kBorrow && asked <= own) return Admission{};
  if (job.tier == Tier::kGuaranteed)
    return refused(Excess::kQuota, asked, own,
                   fmt::format("a guaranteed job of {} GPUs of type '{}' exceeds the quota of tenant '{}', {} GPUs",
                               asked, name, tenant.name, own));
  // Of a job that may have quota, what exceeds it is borrowed.
  const int within = job.tier == Tier::kBorrow ? 0 : own;
  if (tenant.borrow_limit != kNoLimit && asked - within > tenant.borrow_limit)
    return refused(Excess::kBorrowLimit, asked, within + tenant.borrow_limit,
                   fmt::format("{} GPUs of type '{}' {}; tenant '{}' may borrow {} GPUs", asked, name,
                               job.tier == Tier::kBorrow ? "are asked for as borrowed"
                                                         : fmt::format("exceed the quota of {}", own),
                               tenant.name, tenant.borrow_limit));
  if (!state.nodes_known) return Admission{};
  const Capacity nodes = capacity_for(state, job, type);
  // What the tenant keeps itself is not kept from it.
  const Tenant* itself = within > 0 ? &tenant : nullptr;
  const int most =
      std::min(nodes.of_type - never_lent(state, type, itself), nodes.all - never_lent_in_all(state, itself));
  if (asked > most)
    return refused(Excess::kLendable, asked, std::max(0, most),
                   fmt::format("{} GPUs of type '{}' would have to be borrowed; tenants lend at most {}",
                               asked - within, name, std::max(0, most - within)));
  return Admission{};
}

}  // namespace

Admission admit(const ClusterState& state, const Job& job) {
  const Tenant& tenant = state.tenants[job.tenant];
  const int asked = job.min_learners * job.gpus_per_learner;
  if (tenant.max_job_gpus != kNoLimit && asked > tenant.max_job_gpus)
    return refused(Excess::kJobLimit, asked, tenant.max_job_gpus,
                   fmt::format("{} GPUs exceed what one job of tenant '{}' may have, {} GPUs", asked, tenant.name,
                               tenant.max_job_gpus));
  if (tenant.max_user_gpus != kNoLimit && asked > tenant.max_user_gpus)
    return refused(Excess::kUserLimit, asked, tenant.max_user_gpus,
                   fmt::format("{} GPUs exceed what one user of tenant '{}' may have, {} GPUs", asked, tenant.name,
                               tenant.max_user_gpus));
  if (job.type != kAnyType) return admit_on(state, job, job.type);
  Admission best = refused(Excess::kNodeGpus, asked, 0, "the cluster has no GPUs");
  bool first = true;
  for (int type = 0; type < state.type_count(); ++type) {
    Admission found = admit_on(state, job, type);
    if (found.admitted()) return found;
    if (first || found.allowed > best.allowed) best = std::move(found);
    first = false;
  }
  return best;
}

}  // namespace dl::policy
