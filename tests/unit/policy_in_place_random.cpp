// SPDX-License-Identifier: Apache-2.0
// Random worlds whose jobs fill nodes and grow where they are, again and again: limits hold, and all comes to rest.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "slurm-plugin/policy/free_gpus.h"
#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/sizes/further.h"
#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

ClusterState random_filled(Dice* dice) {
  const int gpus = 1 << dice->from(0, 2);
  ClusterState state = cluster(dice->from(3, 8), gpus);
  if (dice->one_in(3)) state.types = {"a100", "h100"};
  const int nodes = static_cast<int>(state.nodes.size());
  for (Node& node : state.nodes) node.type = dice->from(0, state.type_count() - 1);
  const int tenants = dice->from(1, 3);
  for (int i = 0; i < tenants; ++i) {
    Tenant& tenant = add_tenant(&state, "t" + std::to_string(i), 0);
    tenant.quota.by_type.clear();
    for (int type = 0; type < state.type_count(); ++type)
      tenant.quota.by_type.push_back(dice->from(0, nodes * gpus / tenants / state.type_count()));
    if (dice->one_in(4)) tenant.borrow_limit = dice->from(0, 3 * gpus);
    if (dice->one_in(4)) tenant.lend = GpuCounts{{dice->from(0, 2 * gpus)}, 0};
    tenant.weight = dice->from(1, 2);
  }
  for (int node = 0; node < nodes; ++node) {
    if (dice->one_in(2)) continue;
    const int each = dice->one_in(2) ? gpus : 1;
    const bool whole = !dice->one_in(4);
    std::vector<Part> parts = {{node, whole ? each : 1}};
    if (whole && node + 1 < nodes && state.nodes[node + 1].type == state.nodes[node].type && dice->one_in(3))
      parts.push_back({++node, each});
    Job& job = add_running(&state, dice->from(0, tenants - 1), parts, Charge::kBorrowed, gpus / each);
    job.type = dice->one_in(2) ? kAnyType : state.nodes[node].type;
    if (!dice->one_in(4)) job.min_learners = 1;
    if (!dice->one_in(4)) job.max_learners += dice->from(0, 2 * gpus);
    job.restart_s = dice->from(0, 60);
    job.start_s = job.checkpoint_s = state.now_s - dice->from(0, 9000);
    job.limit_s = dice->one_in(4) ? dice->from(9000, 20'000) : 0;
  }
  for (const Move& move : charge(state)) carry_out(move, &state.jobs[move.job]);
  return state;
}

class FilledWorld {
 public:
  FilledWorld(uint64_t seed, bool rigid) : dice_(seed), state_(random_filled(&dice_)) {
    if (rigid)
      for (Job& job : state_.jobs) job.min_learners = job.max_learners = job.learners();
    first_ = state_.jobs.size();
    last_id_ = static_cast<int64_t>(first_);
    for (size_t i = 0; i < first_; ++i) {
      const int shape = dice_.from(0, 3);
      if (dice_.one_in(6)) continue;
      speeds_.push_back(anywhere(state_, static_cast<int>(i), [&](int n) {
        return shape == 0 ? n : shape == 1 ? std::sqrt(n) : shape == 2 ? 1 + 0.02 * n : 10.0 / n;
      }));
    }
  }
  bool sound() const { return check(state_).has_value() && check(state_, speeds_).has_value(); }

  // One decision, which is carried out; what breaks a rule, or "".
  std::string round() {
    memory_.tidy();
    std::vector<MayGrow> may(state_.jobs.size(), MayGrow::kNo);
    std::map<int64_t, int> parents;  // how many companions each has
    for (const auto& [companion, parent] : parents_) ++parents[parent];
    for (size_t i = 0; i < state_.jobs.size(); ++i) {
      const Job& job = state_.jobs[i];
      if (!job.running) continue;
      memory_.look(job.id, offers_[job.id], parents.count(job.id) != 0 ? parents[job.id] : 0, state_.now_s);
      if (!dice_.one_in(10)) may[i] = MayGrow::kYes;
    }
    std::vector<JobSpeeds> open;
    for (const JobSpeeds& known : speeds_) {
      const Job& job = state_.jobs[known.job];
      const int64_t rest = rest_s(state_, job, each_300s());
      if (job.running && (parents.count(job.id) != 0 || state_.now_s < memory_.rests_until_s(job.id, rest))) continue;
      open.push_back(known);
    }
    SteadySizes sizes = decide_steadily(&state_, open, each_300s());
    std::vector<Growth> growths = grow_in_place(state_, may, &sizes);
    if (growths.empty() && sizes.resizes.empty() && sizes.decision.starts.empty() && sizes.decision.reclaims.empty()) {
      growths = further(may, sizes.decision);
      grown_further += static_cast<int>(growths.size());
    }
    if (const std::string wrong = wrong_in(growths, sizes.decision); !wrong.empty()) return wrong;
    // What a waiting job is to start with, once others have given that up, changes nothing yet.
    const bool resized =
        std::any_of(sizes.resizes.begin(), sizes.resizes.end(), [](const Resize& one) { return !one.starts; });
    changed_ = !growths.empty() || resized || !sizes.decision.starts.empty() || !sizes.decision.reclaims.empty();
    grown += static_cast<int>(growths.size());
    carry_out(&state_, sizes.decision, true);
    for (const Resize& resize : sizes.resizes) {
      Job& job = state_.jobs[resize.job];
      if (!job.running || resize.starts) continue;
      if (has_learners(resize)) job.parts = resize.parts;
      job.start_s = job.checkpoint_s = state_.now_s;
    }
    const ClusterState base = state_;
    for (const Growth& growth : growths) add_companion(growth);
    if (const std::string wrong = beyond_limits(base); !wrong.empty()) return wrong;
    drop_companions();
    for (const Move& move : charge(state_)) carry_out(move, &state_.jobs[move.job]);
    state_.now_s += 1300;
    const Status status = check(state_);
    return status ? "" : status.error().text;
  }

  // Somebody submits a job, or one that was submitted so ends.
  void stir() {
    if (state_.jobs.size() > first_ && dice_.one_in(3)) {
      const size_t i = first_ + static_cast<size_t>(dice_.from(0, static_cast<int>(state_.jobs.size() - first_) - 1));
      if (!state_.jobs[i].companion) erase(i);
    }
    if (!dice_.one_in(3)) return;
    const int tenant = dice_.from(0, static_cast<int>(state_.tenants.size()) - 1);
    Job& job = add_job(&state_, tenant, dice_.from(1, 4), 1);
    job.id = ++last_id_;
    job.submit_s = state_.now_s;
    if (dice_.one_in(4)) job.tier = Tier::kGuaranteed;
    if (dice_.one_in(4)) job.tier = Tier::kBorrow;
  }

  bool changed() const { return changed_; }
  const ClusterState& state() const { return state_; }
  const std::vector<JobSpeeds>& speeds() const { return speeds_; }
  int grown = 0, grown_further = 0, given_back = 0, compared = 0;

 private:
  std::vector<int> companions_of(int64_t job) const {
    std::vector<int> found;
    for (size_t i = 0; i < state_.jobs.size(); ++i) {
      const auto its = parents_.find(state_.jobs[i].id);
      if (its != parents_.end() && its->second == job) found.push_back(static_cast<int>(i));
    }
    return found;
  }

  std::vector<Growth> further(const std::vector<MayGrow>& may, const Decision& decision) {
    std::vector<Grown> with;
    for (const JobSpeeds& known : speeds_) {
      const Job& job = state_.jobs[known.job];
      const int64_t rest = rest_s(state_, job, each_300s());
      if (!job.running || state_.now_s < memory_.rests_until_s(job.id, rest)) continue;
      if (const std::vector<int> its = companions_of(job.id); !its.empty()) with.push_back({known.job, its});
    }
    Joined joined = with_companions(state_, with);
    EXPECT_TRUE(check(joined.state));
    std::vector<JobSpeeds> speeds;
    for (const JobSpeeds& known : speeds_)
      for (const Grown& one : joined.grown)
        if (one.job == known.job) {
          speeds.push_back(known);
          speeds.back().job = joined.index[known.job];
        }
    return grow_further(state_, decision, may, speeds, each_300s(), &joined);
  }

  bool has_learners(const Resize& resize) const {
    FreeGpus room(state_);
    const Job& job = state_.jobs[resize.job];
    room.give(job.parts, job.gpus_per_learner);
    return std::all_of(resize.parts.begin(), resize.parts.end(),
                       [&](const Part& part) { return room.on(part.node) >= part.learners * job.gpus_per_learner; });
  }

  std::string wrong_in(const std::vector<Growth>& growths, const Decision& decision) {
    const FreeGpus free(state_);
    std::set<int> taken;
    for (const Growth& growth : growths) {
      const Job& job = state_.jobs[growth.job];
      if (!job.running || !job.elastic()) return "a job that may not vary grows";
      int before = job.learners();
      for (const int companion : companions_of(job.id)) before += state_.jobs[companion].gpus() / job.gpus_per_learner;
      if (growth.before != before) return "it is not known how many learners a job has";
      if (before + growth.learners > job.max_learners) return "a job is above MAX";
      if (growth.nodes < 1 || static_cast<int>(growth.free.size()) != growth.nodes) return "a growth has no nodes";
      for (const int node : growth.free) {
        if (free.on(node) != state_.nodes[node].gpus) return "a node is not wholly free";
        if (!taken.insert(node).second) return "a node is given twice";
        if (state_.nodes[node].type != state_.type_held(job)) return "a node is of another type";
      }
      for (const Job& other : state_.jobs)
        if (!other.running && (other.type == kAnyType || other.type == state_.type_held(job)))
          return "a job grows onto GPUs that somebody waits for";
    }
    return companions_first(decision);
  }

  // Of a single claim: if giving back companions is enough, nobody else is a victim.
  std::string companions_first(const Decision& decision) {
    if (decision.reclaims.size() != 1 || !decision.starts.empty() || decision.waiting.size() != 1) return "";
    const Reclaim& reclaim = decision.reclaims[0];
    const Job& claim = state_.jobs[reclaim.claimant];
    if (claim.tier == Tier::kGuaranteed || reclaim.parts.empty()) return "";
    FreeGpus room(state_);
    int companions = 0;
    for (const Job& job : state_.jobs)
      if (job.companion && job.running && job.yields_to == kNobody) {
        room.give(job.parts, job.gpus_per_learner);
        ++companions;
      }
    const int type = state_.nodes[reclaim.parts.front().node].type;
    if (companions == 0 || room.slots(type, claim.gpus_per_learner) < claim.min_learners) return "";
    ++compared;
    for (const Victim& victim : reclaim.set.victims)
      if (!state_.jobs[victim.job].companion) return "a job yields though companions are enough";
    return "";
  }

  void add_companion(const Growth& growth) {
    const Job& parent = state_.jobs[growth.job];
    Job job;
    job.id = ++last_id_;
    job.submit_s = job.start_s = job.checkpoint_s = state_.now_s;
    job.tenant = parent.tenant;
    job.type = state_.nodes[growth.free.front()].type;
    job.gpus_per_learner = state_.nodes[growth.free.front()].gpus;
    job.min_learners = job.max_learners = growth.nodes;
    for (const int node : growth.free) job.parts.push_back({node, 1});
    std::sort(job.parts.begin(), job.parts.end(), [](const Part& a, const Part& b) { return a.node < b.node; });
    job.tier = Tier::kBorrow;
    job.charge = Charge::kBorrowed;
    job.running = job.companion = true;
    job.saves = false;
    parents_[job.id] = parent.id;
    offers_[parent.id] = state_.now_s;
    state_.jobs.push_back(job);
  }

  // Growth takes nobody beyond what he may borrow, nor more than others lend.
  std::string beyond_limits(ClusterState base) const {
    ClusterState after = state_;
    for (ClusterState* one : {&base, &after})
      for (const Move& move : charge(*one)) carry_out(move, &one->jobs[move.job]);
    const Ledger before(base);
    const Ledger now(after);
    for (int tenant = 0; tenant < static_cast<int>(state_.tenants.size()); ++tenant)
      for (int type = 0; type < state_.type_count(); ++type) {
        if (now.borrowed(tenant, type) <= before.borrowed(tenant, type)) continue;
        if (!now.within_borrow_limit(tenant, 0)) return "a borrowing limit is exceeded";
        if (!now.lendable(type, 0)) return "more is borrowed than the others lend";
      }
    return "";
  }

  // Companions end with their jobs, and do not go back into the queue.
  void drop_companions() {
    for (size_t i = state_.jobs.size(); i-- > first_;) {
      const Job& job = state_.jobs[i];
      if (!job.companion) continue;
      const int64_t parent = parents_[job.id];
      const bool there = std::any_of(state_.jobs.begin(), state_.jobs.end(), [&](const Job& one) {
        return one.id == parent && one.running && (one.start_s != state_.now_s || job.start_s == state_.now_s);
      });
      given_back += job.running ? 0 : 1;
      if (!job.running || !there) erase(i);
    }
  }

  void erase(size_t index) {
    parents_.erase(state_.jobs[index].id);
    state_.jobs.erase(state_.jobs.begin() + static_cast<int64_t>(index));
  }

  Dice dice_;
  ClusterState state_;
  std::vector<JobSpeeds> speeds_;
  size_t first_ = 0;
  int64_t last_id_ = 0;
  bool changed_ = false;
  GrowthMemory memory_;
  std::map<int64_t, int64_t> parents_;  // by companion
  std::map<int64_t, int64_t> offers_;
};

TEST(PolicyInPlaceRandom, NobodyExceedsLimitsAndAllComesToRest) {
  int states = 0, grown = 0, grown_further = 0, given_back = 0, compared = 0;
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    FilledWorld world(seed, false);
    if (!world.sound()) continue;
    int last = 0;
    constexpr int kStirred = 10;
    constexpr int kRest = 30;  // rounds
    for (int round = 0; round < kStirred + kRest; ++round, ++states) {
      if (round < kStirred) world.stir();
      ASSERT_EQ(world.round(), "") << "seed " << seed << " round " << round;
      if (world.changed()) last = round;
    }
    ASSERT_LT(last, kStirred + kRest - 1) << "seed " << seed << " does not come to rest";
    grown += world.grown;
    grown_further += world.grown_further;
    given_back += world.given_back;
    compared += world.compared;
  }
  EXPECT_GT(states, 250'000);
  EXPECT_GT(grown, 1000);
  EXPECT_GT(grown_further, 20);
  EXPECT_GT(given_back, 200);
  EXPECT_GT(compared, 50);
}

TEST(PolicyInPlaceRandom, WhereNoJobCanVaryNothingIsOffered) {
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    FilledWorld world(seed, true);
    if (!world.sound()) continue;
    ClusterState state = world.state();
    SteadySizes sizes = decide_steadily(&state, world.speeds(), each_300s());
    const size_t starts = sizes.decision.starts.size();
    const size_t reclaims = sizes.decision.reclaims.size();
    EXPECT_TRUE(grow_in_place(state, std::vector<MayGrow>(state.jobs.size(), MayGrow::kYes), &sizes).empty());
    const Decision plain = decide(state);
    ASSERT_EQ(starts, plain.starts.size()) << seed;
    ASSERT_EQ(reclaims, plain.reclaims.size()) << seed;
    ASSERT_TRUE(sizes.resizes.empty()) << seed;
  }
}

}  // namespace
}  // namespace dl::policy::testing
