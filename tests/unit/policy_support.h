// SPDX-License-Identifier: Apache-2.0
// States for the tests of the policy: small ones by hand, and random ones by the hundred thousand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/policy/sizes/steady.h"

namespace dl::policy::testing {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15U + 1) {}
  int from(int low, int high) { return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1)); }
  bool one_in(int n) { return from(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

// A cluster of `nodes` nodes with `gpus` GPUs of one type, `per_switch` nodes on a switch, and no tenants.
inline ClusterState cluster(int nodes, int gpus, int per_switch = 4) {
  ClusterState state;
  state.now_s = 100'000;
  state.types = {"a100"};
  for (int i = 0; i < nodes; ++i) {
    Node node;
    node.name = "n" + std::to_string(i);
    node.gpus = gpus;
    node.leaf_switch = i / per_switch;
    state.nodes.push_back(node);
  }
  return state;
}

inline Tenant& add_tenant(ClusterState* state, const std::string& name, int quota) {
  Tenant tenant;
  tenant.name = name;
  tenant.quota.by_type = {quota};
  state->tenants.push_back(tenant);
  return state->tenants.back();
}

// Adds a pending job, whose members the caller may change. The reference is valid until the next job is added.
inline Job& add_job(ClusterState* state, int tenant, int learners, int gpus = 1) {
  Job job;
  job.id = static_cast<int64_t>(state->jobs.size()) + 1;
  job.tenant = tenant;
  job.type = 0;
  job.min_learners = job.max_learners = learners;
  job.gpus_per_learner = gpus;
  job.submit_s = state->now_s - 1000 + job.id;
  job.restart_s = 60;
  state->jobs.push_back(job);
  return state->jobs.back();
}

inline Job& add_running(ClusterState* state, int tenant, std::vector<Part> parts, Charge charge, int gpus = 1) {
  Job& job = add_job(state, tenant, 1, gpus);
  job.parts = std::move(parts);
  job.min_learners = job.max_learners = job.learners();
  job.running = true;
  job.charge = charge;
  job.start_s = state->now_s - 500;
  return job;
}

// The job's speed is speed(learners), on one node as on several.
inline JobSpeeds speeds_of(const ClusterState& state, int job, const std::function<double(int)>& speed) {
  JobSpeeds known;
  known.job = job;
  known.age_s = 1e6;
  const Job& it = state.jobs[job];
  for (int type = 0; type < state.type_count(); ++type)
    for (int n = it.min_learners; n <= it.max_learners; ++n) known.speeds.push_back({type, n, 1, 0, speed(n)});
  return known;
}
// The same, where learners may be on as many nodes as there are of them.
inline JobSpeeds anywhere(const ClusterState& state, int job, const std::function<double(int)>& speed) {
  JobSpeeds known = speeds_of(state, job, speed);
  for (SizeSpeed& one : known.speeds) one.nodes = one.learners;
  return known;
}
inline SizeOptions each_300s() {
  SizeOptions options;
  options.each_s = kResizeEachS;
  return options;
}
inline double linear(int n) {
  return n;
}
inline double flat(int n) {
  return 1 + 0.01 * n;
}

// Learners that victims keep, by job.
inline std::map<int, int> asked_of(const Decision& decision) {
  std::map<int, int> asked;
  for (const Reclaim& reclaim : decision.reclaims)
    for (const Victim& victim : reclaim.set.victims) asked[victim.job] = victim.learners_left;
  return asked;
}

// Carries out the decision in the state: moves and starts; with `reclaim` also the victims leave and go back into the
// queue, and the claimants start in their places.
inline void carry_out(ClusterState* state, const Decision& decision, bool reclaim) {
  for (const Move& move : decision.moves) policy::carry_out(move, &state->jobs[move.job]);
  const auto run = [&](const Start& start) {
    Job& job = state->jobs[start.job];
    job.running = true;
    job.charge = start.charge;
    job.own_part = start.own_part;
    job.parts = start.parts;
    job.start_s = job.checkpoint_s = state->now_s;
    job.idle = false;  // not known of a new attempt
    job.yields_to = kNobody;
    job.promised = false;
    job.promised_parts.clear();
  };
  for (const Waiting& waiting : decision.waiting) {
    Job& job = state->jobs[waiting.job];
    job.promised = waiting.reason == Reason::kVictimsLeaving;
    job.charge = waiting.lent ? Charge::kBorrowed : Charge::kOwn;
    job.promised_parts = job.promised ? waiting.parts : std::vector<Part>{};
  }
  for (const Start& start : decision.starts) run(start);
  if (!reclaim) return;
  for (const Reclaim& reclaims : decision.reclaims) {
    for (const Victim& victim : reclaims.set.victims) {
      Job& job = state->jobs[victim.job];
      job.parts = parts_after_shrink(job.parts, victim.learners_left);
      job.running = victim.learners_left > 0;
      if (job.idle) job.submit_s = state->now_s;
      job.idle = false;
      job.yields_to = job.running ? kNobody : state->jobs[reclaims.claimant].id;
      if (job.running) job.start_s = state->now_s;
      if (job.running) job.min_run_s = 0;
    }
  }
}

// A random state that passes check(), small enough for brute force: up to 8 nodes, 2 types, 4 tenants.
ClusterState random_state(Dice* dice);

// Nodes of 4 to 8 GPUs of one or two types, learners of 1 to 4, two tenants that claim, some of it guaranteed.
ClusterState mixed_claims(Dice* dice);
// Adds nested groups for the tenants of a random state. The groups own some of the GPUs that no tenant owns.
void add_groups(Dice* dice, ClusterState* state);
// Gives jobs a nice, so that they come before others of their tenant, or behind them.
void add_nice(Dice* dice, ClusterState* state);

}  // namespace dl::policy::testing
