// SPDX-License-Identifier: Apache-2.0
// The victims of several claims together, beside trying every set.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "slurm-plugin/policy/joint.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::asked_of;
using testing::cluster;
using testing::Dice;
using testing::mixed_claims;

VictimSet loss_of(const ClusterState& state, const std::map<int, int>& asked) {
  VictimSet set;
  for (const auto& [index, left] : asked) {
    const Job& job = state.jobs[index];
    const int64_t lost = lost_if_paused(state, job);
    set.victims.push_back(Victim{index, left, lost});
    if (left == 0) {
      set.stopped_gpu_s += lost;
    } else {
      set.shrunk_gpu_s += lost;
      set.shrunk_gpus += (job.learners() - left) * job.gpus_per_learner;
    }
  }
  return set;
}

// What has to fit at once: learners of one size after another, each on any node of its type.
struct Gang {
  int job;
  int size;
  int learners;
  int type;   // kAnyType: any that the quotas hold
  int given;  // by the decision
};

// Tries every place of every learner. It knows nothing of sizes that are multiples of one another.
bool all_placed(const std::vector<Gang>& gangs, size_t gang, int learner, FreeGpus* room, int first) {
  if (gang == gangs.size()) return true;
  const Gang& here = gangs[gang];
  if (learner == here.learners) return all_placed(gangs, gang + 1, 0, room, 0);
  const std::vector<int>& nodes = room->nodes_of(here.type);
  std::set<int> tried;  // nodes with as many free GPUs are alike, but for those before `first`
  for (size_t i = static_cast<size_t>(first); i < nodes.size(); ++i) {
    if (room->on(nodes[i]) < here.size || !tried.insert(room->on(nodes[i])).second) continue;
    room->add(nodes[i], -here.size);
    const bool placed = all_placed(gangs, gang, learner + 1, room, 0);
    room->add(nodes[i], here.size);
    if (placed) return true;
  }
  return false;
}

// The same for all types that the claims may have, as far as quotas hold them.
bool all_fit(const ClusterState& state, std::vector<Gang> gangs, size_t next, Ledger* ledger, FreeGpus* room) {
  if (next == gangs.size()) {
    // Another type than it has been given it may have if the quota holds it before anybody has gone.
    for (const Gang& gang : gangs)
      if (gang.type != gang.given && !ledger->fits_own(state.jobs[gang.job].tenant, gang.type, 0)) return false;
    std::stable_sort(gangs.begin(), gangs.end(), [](const Gang& a, const Gang& b) { return a.size > b.size; });
    for (int type = 0; type < state.type_count(); ++type) {
      std::vector<Gang> of_type;
      for (const Gang& gang : gangs)
        if (gang.type == type) of_type.push_back(gang);
      if (!all_placed(of_type, 0, 0, room, 0)) return false;
    }
    return true;
  }
  const int asked = gangs[next].type;
  const int tenant = state.jobs[gangs[next].job].tenant;
  const int gpus = gangs[next].size * gangs[next].learners;
  for (int type = 0; type < state.type_count(); ++type) {
    if (asked != kAnyType && asked != type) continue;
    gangs[next].type = type;
    ledger->add(tenant, type, gpus, Charge::kOwn);
    const bool fit = all_fit(state, gangs, next + 1, ledger, room);
    ledger->add(tenant, type, -gpus, Charge::kOwn);
    if (fit) return true;
  }
  return false;
}

// `state`: with what started at once. Claims that wait for borrowers; what guaranteed ones take from their own tenants
// stays as it is, and their places are kept. Nothing where these lie on GPUs of others' victims.
struct Asked {
  std::vector<Gang> gangs;
  std::map<int, int> fixed;  // learners that victims of others keep
  FreeGpus room;
  Ledger ledger;
};

std::optional<Asked> asked_jointly(const ClusterState& state, const Decision& decision) {
  Asked asked{{}, {}, FreeGpus(state), Ledger(state)};
  std::set<int> others;
  for (const Waiting& waiting : decision.waiting) {
    const Job& job = state.jobs[waiting.job];
    if (waiting.reason != Reason::kVictimsLeaving) continue;
    const int type = state.nodes[waiting.parts.front().node].type;
    if (waiting.within_tenant) {
      others.insert(waiting.job);
      asked.ledger.add(job.tenant, type, waiting.asked, Charge::kOwn);
      continue;
    }
    asked.gangs.push_back(Gang{waiting.job, job.gpus_per_learner, job.min_learners, job.type, type});
  }
  for (const Reclaim& reclaim : decision.reclaims) {
    if (others.count(reclaim.claimant) == 0) continue;
    for (const Victim& victim : reclaim.set.victims) {
      const auto before = asked.fixed.find(victim.job);
      const Job& job = state.jobs[victim.job];
      const int had = before == asked.fixed.end() ? job.learners() : before->second;
      if (victim.learners_left >= had) continue;
      asked.room.give(parts_after_shrink(job.parts, had), job.gpus_per_learner);
      asked.room.take(parts_after_shrink(job.parts, victim.learners_left), job.gpus_per_learner);
      asked.fixed[victim.job] = victim.learners_left;
    }
  }
  for (const Waiting& waiting : decision.waiting)
    if (others.count(waiting.job) != 0) asked.room.take(waiting.parts, state.jobs[waiting.job].gpus_per_learner);
  for (size_t node = 0; node < state.nodes.size(); ++node)
    if (asked.room.on(static_cast<int>(node)) < 0) return std::nullopt;
  return asked;
}

bool all_fit(const ClusterState& state, const Asked& asked, const FreeGpus& free) {
  Ledger ledger = asked.ledger;
  FreeGpus room = free;
  return all_fit(state, asked.gangs, 0, &ledger, &room);
}

struct Everything {
  const ClusterState& state;
  const Asked& what;
  std::vector<int> candidates;
  std::optional<VictimSet> best;

  void try_from(size_t i, std::map<int, int>* asked, const FreeGpus& room) {
    if (i == candidates.size()) {
      const VictimSet set = loss_of(state, *asked);
      if ((!best || less_loss(set, *best)) && all_fit(state, what, room)) best = set;
      return;
    }
    try_from(i + 1, asked, room);
    const Job& job = state.jobs[candidates[i]];
    const auto fixed = what.fixed.find(candidates[i]);
    const int has = fixed == what.fixed.end() ? job.learners() : fixed->second;
    for (int left = 0; left < has; ++left) {
      if (left != 0 && left < job.min_learners) continue;
      FreeGpus with = room;
      with.give(parts_after_shrink(job.parts, has), job.gpus_per_learner);
      with.take(parts_after_shrink(job.parts, left), job.gpus_per_learner);
      (*asked)[candidates[i]] = left;
      try_from(i + 1, asked, with);
      asked->erase(candidates[i]);
      if (fixed != what.fixed.end()) asked->insert(*fixed);
    }
  }
};

// One tenant owns all GPUs, two others hold most of them; it claims several gangs.
ClusterState several_claims(Dice* dice, int most_running) {
  ClusterState state = cluster(dice->from(1, 5), 8);
  add_tenant(&state, "owner", static_cast<int>(state.nodes.size()) * 8);
  add_tenant(&state, "b", 0);
  add_tenant(&state, "c", 0);
  for (int i = 0; i < most_running; ++i) {
    const int size = 1 << dice->from(0, 3);
    const int learners = dice->from(1, size == 1 ? 8 : 3);
    const auto parts =
        place(dice->one_in(2) ? Placement::kPack : Placement::kSpread, FreeGpus(state), 0, size, learners);
    if (!parts) continue;
    Job& job = add_running(&state, dice->from(1, 2), *parts, Charge::kBorrowed, size);
    if (dice->one_in(3)) job.min_learners = dice->from(1, job.max_learners);
    job.start_s = state.now_s - dice->from(0, 5000);
    job.checkpoint_s = state.now_s - dice->from(0, 5000);
    job.restart_s = dice->from(0, 120);
  }
  const int claims = dice->from(2, 5);
  for (int i = 0; i < claims; ++i) {
    Job& job = add_job(&state, 0, dice->from(1, 4), 1 << dice->from(0, 3));
    if (dice->one_in(2)) job.placement = Placement::kSpread;
  }
  return state;
}

// A job of eight GPUs that has just saved, and eight that would lose more than it, together and almost alone.
TEST(PolicyJoint, eight_claims_take_back_from_one_large_job_rather_than_from_eight) {
  ClusterState state = cluster(2, 8);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 8}}, Charge::kBorrowed).checkpoint_s = state.now_s;
  for (int i = 0; i < 8; ++i) add_running(&state, 1, {{1, 1}}, Charge::kBorrowed).checkpoint_s = state.now_s - 380;
  for (int i = 0; i < 8; ++i) add_job(&state, 0, 1);
  const Decision decision = decide(state);
  EXPECT_EQ(asked_of(decision), (std::map<int, int>{{0, 0}}));
  EXPECT_EQ(decision.waiting.size(), 8U);
}

// The first claim takes the cheap job; the second needs the large one, whose GPUs are enough for both.
TEST(PolicyJoint, a_victim_that_a_later_one_makes_needless_is_put_back) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 0);
  add_running(&state, 1, {{0, 1}}, Charge::kBorrowed).checkpoint_s = state.now_s;
  add_running(&state, 1, {{0, 3}}, Charge::kBorrowed).pausable = false;
  add_running(&state, 1, {{1, 4}}, Charge::kBorrowed).checkpoint_s = state.now_s - 100;
  add_job(&state, 0, 1);
  add_job(&state, 0, 1, 2);
  EXPECT_EQ(asked_of(decide(state)), (std::map<int, int>{{2, 0}}));
}

// Counts of what was met, so that a test can tell that it met enough of it.
struct Met {
  int several = 0;
  int with_shrinks = 0;
  int other_sizes = 0;  // claims of sizes that are no multiples of one another
  int any_type = 0;     // claims that may have several types
  int guaranteed = 0;
  int of_own_tenant = 0;  // claims that take from their own tenants beside those that take from borrowers
};

// Compares the decision with every set of victims; counts it if there is something to compare.
::testing::AssertionResult least_loss(const ClusterState& state, Met* met) {
  const Decision decision = decide(state);
  if (decision.reclaims.empty()) return ::testing::AssertionSuccess();
  ClusterState started = state;
  testing::carry_out(&started, decision, false);
  const std::optional<Asked> what = asked_jointly(started, decision);
  if (!what || what->gangs.size() < 2) return ::testing::AssertionSuccess();
  Everything everything{started, *what, {}, {}};
  for (size_t i = 0; i < started.jobs.size(); ++i) {
    const Job& job = started.jobs[i];
    if (state.jobs[i].running && job.charge == Charge::kBorrowed && job.pausable)
      everything.candidates.push_back(static_cast<int>(i));
  }
  if (everything.candidates.size() > 6) return ::testing::AssertionSuccess();
  std::map<int, int> asked = what->fixed;
  everything.try_from(0, &asked, what->room);
  if (!everything.best) return ::testing::AssertionFailure() << "nothing is enough";
  const VictimSet ours = loss_of(state, asked_of(decision));
  if (less_loss(*everything.best, ours))
    return ::testing::AssertionFailure() << ours.stopped_gpu_s << " + " << ours.shrunk_gpu_s << " where "
                                         << everything.best->stopped_gpu_s << " + " << everything.best->shrunk_gpu_s
                                         << " do";
  if (less_loss(ours, *everything.best)) return ::testing::AssertionFailure() << "not all claims fit";
  ++met->several;
  for (const auto& [job, left] : asked_of(decision)) met->with_shrinks += left > 0;
  std::vector<Need> needs;
  for (const Gang& gang : what->gangs) {
    needs.push_back(Need{gang.size, gang.learners});
    met->any_type += gang.type == kAnyType && started.type_count() > 1;
    met->guaranteed += started.jobs[gang.job].tier == Tier::kGuaranteed;
  }
  met->other_sizes += !multiples(by_size(needs));
  for (const Waiting& waiting : decision.waiting) met->of_own_tenant += waiting.within_tenant;
  return ::testing::AssertionSuccess();
}

TEST(PolicyJoint, loss_is_the_least_that_trying_every_set_finds) {
  Met met;
  for (int seed = 0; met.several < 3000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 20'000'000);
    ASSERT_TRUE(least_loss(several_claims(&dice, 7), &met)) << "seed " << seed;
  }
  EXPECT_GT(met.with_shrinks, 300);
}

TEST(PolicyJoint, loss_is_the_least_for_any_sizes_types_and_guaranteed_claims) {
  Met met;
  for (int seed = 0; met.several < 3000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 40'000'000);
    ASSERT_TRUE(least_loss(mixed_claims(&dice), &met)) << "seed " << seed;
  }
  EXPECT_GT(met.with_shrinks, 300);
  EXPECT_GT(met.other_sizes, 500);
  EXPECT_GT(met.any_type, 500);
  EXPECT_GT(met.guaranteed, 300);
  EXPECT_GT(met.of_own_tenant, 30);
}

// At least so much is lost by any set of victims with which all claims fit. Quotas, and who may be asked for whom, are
// left out of account (policy_in_turns.cpp does not).
struct Beside {
  int compared = 0;
  int more = 0;                 // decisions that lose more than this
  int64_t most_more = 0;        // in hundredths of the greatest loss of one victim
  int64_t ours = 0, least = 0;  // over all of them
};

::testing::AssertionResult near_least_loss(const ClusterState& state, Beside* beside) {
  const Decision decision = decide(state);
  ClusterState started = state;
  testing::carry_out(&started, decision, false);
  Asked what{{}, {}, FreeGpus(started), Ledger(started)};
  for (Tenant& tenant : started.tenants) {
    tenant.quota.any = 1000;
    tenant.quota.by_type.clear();
  }
  what.ledger = Ledger(started);
  std::set<int> tenants;
  for (const Waiting& waiting : decision.waiting) {
    const Job& job = started.jobs[waiting.job];
    if (waiting.reason != Reason::kVictimsLeaving) continue;
    if (waiting.within_tenant) tenants.insert(job.tenant);
    what.gangs.push_back(Gang{waiting.job, job.gpus_per_learner, job.min_learners, job.type,
                              started.nodes[waiting.parts.front().node].type});
  }
  if (tenants.empty() || what.gangs.size() < 2) return ::testing::AssertionSuccess();
  Everything everything{started, what, {}, {}};
  int64_t greatest = 0;
  for (size_t i = 0; i < started.jobs.size(); ++i) {
    const Job& job = started.jobs[i];
    const bool own = tenants.count(job.tenant) != 0 && job.tier != Tier::kGuaranteed;
    if (state.jobs[i].running && job.pausable && (job.charge == Charge::kBorrowed || own))
      everything.candidates.push_back(static_cast<int>(i));
  }
  if (everything.candidates.size() > 7) return ::testing::AssertionSuccess();
  const VictimSet ours = loss_of(state, asked_of(decision));
  for (const Victim& victim : ours.victims) greatest = std::max(greatest, victim.lost_gpu_s);
  std::map<int, int> asked;
  everything.try_from(0, &asked, what.room);
  if (!everything.best) return ::testing::AssertionFailure() << "nothing is enough";
  const int64_t more = ours.lost_gpu_s() - everything.best->lost_gpu_s();
  ++beside->compared;
  beside->more += more > 0;
  beside->ours += ours.lost_gpu_s();
  beside->least += everything.best->lost_gpu_s();
  if (greatest > 0) beside->most_more = std::max(beside->most_more, 100 * more / greatest);
  return ::testing::AssertionSuccess();
}

TEST(PolicyJoint, what_guaranteed_claims_take_from_their_own_tenant_loses_little_more_than_the_least) {
  Beside beside;
  for (int seed = 0; beside.compared < 3000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 50'000'000);
    ASSERT_TRUE(near_least_loss(mixed_claims(&dice), &beside)) << "seed " << seed;
  }
  // 2026-11-27: 511 of 3,000 more, altogether 1.05 times as much, at most 1.91 times the loss of the greatest victim.
  // Before guaranteed claims were looked at together: 1,202 of 3,000 more, altogether 1.12 times as much.
  EXPECT_LT(beside.more, beside.compared / 4);
  EXPECT_LE(static_cast<double>(beside.ours), 1.1 * static_cast<double>(beside.least));
  EXPECT_LE(beside.most_more, 200);
}

}  // namespace
}  // namespace dl::policy
