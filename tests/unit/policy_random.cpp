// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

void random_nodes(Dice* dice, ClusterState* state) {
  const int types = dice->from(1, 2);
  for (int i = 0; i < types; ++i) state->types.push_back(i == 0 ? "a100" : "k80");
  const int nodes = dice->from(1, 8);
  const int size = 1 << dice->from(0, 3);
  for (int i = 0; i < nodes; ++i) {
    Node node;
    node.name = "n" + std::to_string(i);
    node.type = dice->from(0, types - 1);
    node.gpus = dice->one_in(5) ? dice->from(1, 8) : size;
    node.leaf_switch = dice->from(0, 2);
    node.usable = !dice->one_in(12);
    state->nodes.push_back(node);
  }
}

// Quotas that the nodes can keep: pieces of what each type has.
void random_tenants(Dice* dice, ClusterState* state) {
  const int tenants = dice->from(1, 4);
  std::vector<int> left(state->types.size());
  for (const Node& node : state->nodes) left[node.type] += node.gpus;
  for (int i = 0; i < tenants; ++i) {
    Tenant tenant;
    tenant.name = "t" + std::to_string(i);
    tenant.group = dice->from(kNobody, 1);
    for (int& gpus : left) {
      const int quota = dice->from(0, gpus);
      gpus -= quota;
      tenant.quota.by_type.push_back(quota);
    }
    if (dice->one_in(3)) {
      const int any = dice->from(0, *std::min_element(left.begin(), left.end()));
      tenant.quota.any = any;
      for (int& gpus : left) gpus -= any;
    }
    if (dice->one_in(3)) {
      tenant.lend = GpuCounts{};
      for (const int quota : tenant.quota.by_type) tenant.lend->by_type.push_back(dice->from(0, quota));
      tenant.lend->any = dice->from(0, tenant.quota.any);
    }
    if (dice->one_in(3)) tenant.borrow_limit = dice->from(0, 8);
    tenant.weight = dice->one_in(6) ? 0 : dice->from(1, 4);
    tenant.recent_gpu_s = dice->one_in(2) ? 0 : dice->from(0, 1'000'000);
    state->tenants.push_back(tenant);
  }
}

Job random_job(Dice* dice, const ClusterState& state, int64_t id) {
  Job job;
  job.id = id;
  job.tenant = dice->from(0, static_cast<int>(state.tenants.size()) - 1);
  job.tier = dice->one_in(8) ? Tier::kBorrow : dice->one_in(8) ? Tier::kGuaranteed : Tier::kAuto;
  job.type = dice->one_in(3) ? kAnyType : dice->from(0, state.type_count() - 1);
  job.gpus_per_learner = dice->one_in(2) ? 1 : 1 << dice->from(0, 3);
  job.min_learners = dice->one_in(2) ? 1 : dice->from(1, 4);
  job.max_learners = job.min_learners + (dice->one_in(4) ? dice->from(1, 3) : 0);
  job.placement = dice->one_in(2) ? Placement::kPack : Placement::kSpread;
  job.submit_s = state.now_s - dice->from(0, 5000);
  job.restart_s = dice->from(0, 120);
  job.min_run_s = dice->one_in(4) ? 600 : 0;
  job.pausable = !dice->one_in(10);
  return job;
}

}  // namespace

ClusterState random_state(Dice* dice) {
  ClusterState state;
  state.now_s = 1'000'000;
  random_nodes(dice, &state);
  random_tenants(dice, &state);
  const int running = dice->from(0, 10);
  for (int i = 0; i < running; ++i) {
    Job job = random_job(dice, state, i + 1);
    const FreeGpus free(state);
    const int type = job.type == kAnyType ? dice->from(0, state.type_count() - 1) : job.type;
    const int learners = dice->from(job.min_learners, job.max_learners);
    const auto parts = place(job.placement, free, type, job.gpus_per_learner, learners);
    if (!parts) continue;
    job.running = true;
    job.parts = *parts;
    job.start_s = state.now_s - dice->from(0, 2000);
    job.checkpoint_s = dice->one_in(2) ? 0 : state.now_s - dice->from(0, 2000);
    Ledger ledger(state);
    const bool fits = ledger.fits_own(job.tenant, type, job.gpus());
    if (job.tier == Tier::kGuaranteed && !fits) job.tier = Tier::kAuto;
    // Charged as it should be, or not yet: a job has ended, a quota was changed.
    job.charge = job.tier == Tier::kGuaranteed || (job.tier == Tier::kAuto && fits && !dice->one_in(4))
                     ? Charge::kOwn
                     : Charge::kBorrowed;
    if (job.charge == Charge::kBorrowed && job.tier == Tier::kAuto && dice->one_in(2))
      job.own_part = dice->from(0, ledger.own_part(job.tenant, type, job.gpus()));
    state.jobs.push_back(job);
  }
  const int pending = dice->from(0, 8);
  for (int i = 0; i < pending; ++i) state.jobs.push_back(random_job(dice, state, running + i + 1));
  for (Job& job : state.jobs) job.idle = job.running && dice->one_in(8);
  return state;
}

ClusterState mixed_claims(Dice* dice) {
  ClusterState state = cluster(dice->from(2, 5), 4);
  const int types = dice->from(1, 2);
  if (types == 2) state.types.push_back("k80");
  std::vector<int> gpus(static_cast<size_t>(types));
  for (Node& node : state.nodes) {
    node.type = dice->from(0, types - 1);
    node.gpus = dice->from(4, dice->one_in(3) ? 8 : 4);
    gpus[static_cast<size_t>(node.type)] += node.gpus;
  }
  const int owners = dice->from(1, 2);
  for (int i = 0; i < owners; ++i) {
    add_tenant(&state, "owner" + std::to_string(i), 0).quota.by_type = {};
    Tenant& owner = state.tenants.back();
    for (int& left : gpus) {
      const int quota = i + 1 == owners ? left : dice->from(0, left);
      left -= quota;
      owner.quota.by_type.push_back(quota);
    }
  }
  add_tenant(&state, "b", 0);
  add_tenant(&state, "c", 0);
  for (int i = 0; i < 8; ++i) {
    const int size = dice->from(1, 3);
    const int learners = dice->from(1, 3);
    const int type = dice->from(0, types - 1);
    const auto parts =
        place(dice->one_in(2) ? Placement::kPack : Placement::kSpread, FreeGpus(state), type, size, learners);
    if (!parts) continue;
    // Now and then an owner's own.
    const int tenant = dice->one_in(4) ? dice->from(0, owners - 1) : owners + dice->from(0, 1);
    const bool own = tenant < owners && Ledger(state).fits_own(tenant, type, size * learners);
    Job& job = add_running(&state, own ? tenant : owners, *parts, own ? Charge::kOwn : Charge::kBorrowed, size);
    job.type = type;
    if (dice->one_in(3)) job.min_learners = dice->from(1, job.max_learners);
    job.start_s = state.now_s - dice->from(0, 5000);
    job.checkpoint_s = state.now_s - dice->from(0, 5000);
    job.restart_s = dice->from(0, 120);
  }
  const int claims = dice->from(2, 5);
  for (int i = 0; i < claims; ++i) {
    Job& job = add_job(&state, dice->from(0, owners - 1), dice->from(1, 3), dice->from(1, 4));
    job.type = dice->one_in(2) ? kAnyType : dice->from(0, types - 1);
    if (dice->one_in(2)) job.placement = Placement::kSpread;
    if (dice->one_in(4)) job.tier = Tier::kGuaranteed;
  }
  return state;
}

void add_groups(Dice* dice, ClusterState* state) {
  std::vector<int> left(state->types.size());
  for (const Node& node : state->nodes) left[node.type] += node.gpus;
  bool typed = true;
  for (Tenant& tenant : state->tenants) {
    typed = typed && tenant.quota.any == 0;
    for (size_t type = 0; type < left.size(); ++type)
      left[type] -= tenant.quota.of(static_cast<int>(type)) + tenant.quota.any;
  }
  const int groups = dice->from(1, 4);
  for (int i = 0; i < groups; ++i) {
    Group group;
    group.name = "g" + std::to_string(i);
    group.parent = i == 0 ? kNobody : dice->from(kNobody, i - 1);
    if (typed) {
      for (int& gpus : left) {
        const int quota = dice->from(0, std::max(0, gpus));
        gpus -= quota;
        group.quota.by_type.push_back(quota);
      }
    } else {
      group.quota.any = dice->from(0, std::max(0, *std::min_element(left.begin(), left.end())));
      for (int& gpus : left) gpus -= group.quota.any;
    }
    state->groups.push_back(group);
  }
  for (Tenant& tenant : state->tenants) tenant.group = dice->from(kNobody, groups - 1);
}

void add_nice(Dice* dice, ClusterState* state) {
  for (Job& job : state->jobs)
    if (dice->one_in(3)) job.nice = dice->from(-2, 2);
}

}  // namespace dl::policy::testing
