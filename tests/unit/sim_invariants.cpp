// SPDX-License-Identifier: Apache-2.0
// What the policy promises, asserted after every decision while generated traces are replayed: not on states that were
// thrown together, but on those to which its own decisions led.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/sim/generate.h"
#include "tests/unit/sim_support.h"

namespace dl::sim {
namespace {

using policy::ClusterState;

// Three tenants: one with typed quotas, one that keeps half, one that owns nothing and may borrow 16.
Scenario mixed_scenario() {
  Scenario scenario;
  scenario.cluster = testing::cluster_of("a100=6x8,k80=6x4");
  scenario.cluster.patience_s = 3600;
  const auto add = [&](const char* name, std::vector<int> by_type, int any) -> policy::Tenant& {
    policy::Tenant tenant;
    tenant.name = name;
    tenant.quota.by_type = std::move(by_type);
    tenant.quota.any = any;
    scenario.cluster.tenants.push_back(tenant);
    return scenario.cluster.tenants.back();
  };
  add("typed", {24, 8}, 0);
  policy::Tenant& keeps = add("keeps", {16, 8}, 4);
  keeps.lend = policy::GpuCounts{{8, 4}, 0};
  add("guest", {}, 0).borrow_limit = 16;
  return scenario;
}

void expect_within_limits(const ClusterState& before, const ClusterState& state) {
  const policy::Ledger was(before);
  const policy::Ledger is(state);
  for (size_t i = 0; i < state.tenants.size(); ++i) {
    const int tenant = static_cast<int>(i);
    const policy::Tenant& who = state.tenants[i];
    int beyond = 0;
    for (int type = 0; type < state.type_count(); ++type)
      beyond += std::max(0, is.own(tenant, type) - who.quota.of(type));
    ASSERT_LE(beyond, who.quota.any) << who.name << " has more than its quota at " << state.now_s;
    // Own GPUs may have become borrowed ones by a move, to make room for a guaranteed job.
    if (who.borrow_limit == policy::kNoLimit) continue;
    ASSERT_LE(is.borrowed(tenant), std::max(who.borrow_limit, was.borrowed(tenant)))
        << who.name << " borrows more than it may at " << state.now_s;
  }
}

bool same(const policy::Decision& a, const policy::Decision& b) {
  return std::equal(a.starts.begin(), a.starts.end(), b.starts.begin(), b.starts.end(),
                    [](const policy::Start& x, const policy::Start& y) {
                      return x.job == y.job && x.charge == y.charge && x.parts == y.parts && x.own_part == y.own_part;
                    }) &&
         std::equal(a.waiting.begin(), a.waiting.end(), b.waiting.begin(), b.waiting.end(),
                    [](const policy::Waiting& x, const policy::Waiting& y) {
                      return x.job == y.job && x.reason == y.reason && x.free == y.free && x.parts == y.parts;
                    }) &&
         a.moves.size() == b.moves.size() && a.reclaims.size() == b.reclaims.size();
}

TEST(SimInvariants, hold_after_every_decision_of_generated_traces) {
  int64_t decisions = 0;
  int64_t looked = 0;
  int64_t stops = 0;
  int64_t shrinks = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Scenario scenario = mixed_scenario();
    Shape shape;
    shape.seed = seed;
    shape.days = 6;
    shape.guaranteed = 0.05;
    shape.borrow = 0.1;
    shape.load = 0.9 + 0.1 * static_cast<double>(seed % 3);
    const Trace trace = generate(shape, scenario.cluster);
    Hooks hooks;
    hooks.watch = [&](const ClusterState& before, const Turn& turn, const ClusterState& after) {
      const Status status = policy::check(after);
      ASSERT_TRUE(status) << status.error().text;
      expect_within_limits(before, after);
      // The engine says where the running jobs begin; the decision does not depend on it.
      if (++looked % 20 == 0) {
        ASSERT_TRUE(policy::check(before));
        ClusterState unsorted = before;
        unsorted.first_running = 0;
        ASSERT_TRUE(same(policy::decide(before), policy::decide(unsorted))) << before.now_s;
      }
      for (const policy::Reclaim& reclaim : turn.decision.reclaims) {
        for (const policy::Victim& victim : reclaim.set.victims) {
          const policy::Job& job = before.jobs[victim.job];
          ASSERT_TRUE(job.running && job.pausable);
          ASSERT_GE(before.now_s - job.start_s, job.min_run_s);
          ASSERT_EQ(job.yields_to, policy::kNobody) << "job " << job.id << " is asked twice";
        }
      }
    };
    for (const char* policy : {"lend", "lend-slurm", "lend-spread", "static"}) {
      const Outcome outcome = testing::replayed(trace, policy, scenario, hooks);
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", policy " << policy;
      // Every claim is served in the end, and everything that was admitted completes.
      EXPECT_EQ(outcome.completed + outcome.refused, outcome.jobs) << seed << " " << policy;
      EXPECT_EQ(outcome.unfinished, 0) << seed << " " << policy;
      EXPECT_EQ(outcome.ping_pong, 0) << seed << " " << policy;
      EXPECT_EQ(outcome.deadlocks, 0) << seed << " " << policy;
      decisions += outcome.decisions;
      stops += outcome.stops;
      shrinks += outcome.shrinks;
    }
  }
  // The traces are such that everything happens.
  EXPECT_GT(decisions, 5000);
  EXPECT_GT(stops, 50);
  EXPECT_GT(shrinks, 0);
}

TEST(SimInvariants, no_policy_gives_a_gpu_twice_and_the_same_trace_gives_the_same_answer) {
  Scenario scenario;
  scenario.cluster = testing::cluster_of("a100=8x8");
  Shape shape;
  shape.days = 3;
  const Trace trace = generate(shape, scenario.cluster);
  add_tenants(trace.tenants(), &scenario.cluster);
  for (const SimPolicy& policy : sim_policies()) {
    Hooks hooks;
    hooks.watch = [&](const ClusterState&, const Turn&, const ClusterState& after) {
      std::map<int, int> held;
      for (const policy::Job& job : after.jobs) {
        for (const policy::Part& part : job.parts) held[part.node] += part.learners * job.gpus_per_learner;
        if (job.running) {
          ASSERT_GE(job.learners(), job.min_learners);
        } else if (policy.gang) {
          ASSERT_TRUE(job.parts.empty()) << "job " << job.id << " is not whole";
        }
      }
      for (const auto& [node, gpus] : held) ASSERT_LE(gpus, after.nodes[node].gpus) << after.nodes[node].name;
    };
    const Outcome once = testing::replayed(trace, policy.name, scenario, hooks);
    if (HasFatalFailure()) FAIL() << policy.name;
    const Outcome again = testing::replayed(trace, policy.name, scenario);
    EXPECT_GT(once.completed, 0) << policy.name;
    EXPECT_EQ(once.completed, again.completed) << policy.name;
    EXPECT_EQ(once.decisions, again.decisions) << policy.name;
    EXPECT_EQ(once.queue.mean, again.queue.mean) << policy.name;
    EXPECT_EQ(once.makespan_s, again.makespan_s) << policy.name;
    EXPECT_EQ(once.series.queued, again.series.queued) << policy.name;
  }
}

// A job within its tenant's quota waits only as long as those that must yield may stay, if its gang is one node's part.
TEST(SimInvariants, claims_of_one_learner_wait_for_the_minimum_run_time_at_most) {
  Scenario scenario;
  scenario.cluster = testing::cluster_of("a100=4x8");
  scenario.min_run_s = 600;
  scenario.yield_s = 30;
  Shape shape;
  shape.days = 4;
  shape.tenants = 3;
  shape.load = 4;  // of what becomes jobs of one GPU
  Trace trace = generate(shape, scenario.cluster);
  add_tenants(trace.tenants(), &scenario.cluster);
  for (TraceJob& job : trace.jobs) {
    job.gpus = job.min_learners = job.max_learners = 1;
    job.tier = Tier::kAuto;
    job.checkpoint_s = 600;
  }
  std::map<int64_t, int64_t> within_since;
  Hooks hooks;
  int64_t longest = 0;
  hooks.watch = [&](const ClusterState&, const Turn&, const ClusterState& after) {
    const policy::Ledger ledger(after);
    std::map<int64_t, int64_t> now;
    std::map<int, int> claims;  // jobs of a tenant that its quota still holds, oldest first
    for (const int index : queue_of(after)) {
      const policy::Job& job = after.jobs[index];
      if (!ledger.fits_own(job.tenant, 0, ++claims[job.tenant])) continue;
      const auto since = within_since.find(job.id);
      now[job.id] = since == within_since.end() ? after.now_s : since->second;
      longest = std::max(longest, after.now_s - now[job.id]);
    }
    within_since = std::move(now);
  };
  for (const char* policy : {"lend", "lend-slurm"}) {
    within_since.clear();
    longest = 0;
    const Outcome outcome = testing::replayed(trace, policy, scenario, hooks);
    EXPECT_GT(outcome.stops, 10) << policy;
    EXPECT_GT(longest, 0) << policy;
    EXPECT_LE(longest, scenario.min_run_s + scenario.yield_s) << policy;
  }
}

}  // namespace
}  // namespace dl::sim
