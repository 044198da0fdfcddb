// SPDX-License-Identifier: Apache-2.0
// Sizes of elastic jobs within what decide() lets each tenant hold.
#include "slurm-plugin/policy/sizes/sizes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "slurm-plugin/policy/free_gpus.h"
#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/user_limits.h"
#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

Job& elastic_running(ClusterState* state, int tenant, std::vector<Part> parts, Charge charge, int most) {
  Job& job = add_running(state, tenant, std::move(parts), charge);
  job.min_learners = 1;
  job.max_learners = most;
  return job;
}

int size_of(const Sizes& sizes, const ClusterState& state, int job) {
  for (const Resize& resize : sizes.resizes)
    if (resize.job == job) return learners_of(resize.parts);
  for (const Start& start : sizes.decision.starts)
    if (start.job == job) return learners_of(start.parts);
  return state.jobs[job].learners();
}

TEST(PolicySizes, OfOneTenantsJobsTheOneThatScalesGetsWhatTheOtherDoesNotNeed) {
  ClusterState state = cluster(2, 8);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 8);
  elastic_running(&state, 0, {{0, 4}}, Charge::kOwn, 8);
  elastic_running(&state, 0, {{0, 4}}, Charge::kOwn, 8);
  add_running(&state, 1, {{1, 8}}, Charge::kOwn);
  ASSERT_TRUE(check(state));
  const Sizes sizes = decide_sizes(state, {speeds_of(state, 0, linear), speeds_of(state, 1, flat)}, {});
  EXPECT_EQ(size_of(sizes, state, 0), 7);
  EXPECT_EQ(size_of(sizes, state, 1), 1);
}

TEST(PolicySizes, AJobThatWaitsStartsOnWhatAnotherOfItsTenantDoesNotNeed) {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 8);
  elastic_running(&state, 0, {{0, 8}}, Charge::kOwn, 8);
  add_job(&state, 0, 3);
  const Sizes sizes = decide_sizes(state, {speeds_of(state, 0, flat)}, {});
  ASSERT_EQ(sizes.resizes.size(), 2U);
  EXPECT_TRUE(sizes.resizes[1].starts);
  EXPECT_EQ(size_of(sizes, state, 1), 3);
  EXPECT_LE(size_of(sizes, state, 0), 5);
  EXPECT_TRUE(sizes.decision.waiting.empty());
}

TEST(PolicySizes, FreeGpusGoToRunningJobsByTurnsUnlessSomebodyWaitsForThem) {
  ClusterState state = cluster(2, 8);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 4);
  elastic_running(&state, 0, {{0, 4}}, Charge::kOwn, 16);
  elastic_running(&state, 1, {{1, 4}}, Charge::kOwn, 16);
  const std::vector<JobSpeeds> speeds = {speeds_of(state, 0, linear), speeds_of(state, 1, linear)};
  const Sizes sizes = decide_sizes(state, speeds, {});
  EXPECT_EQ(size_of(sizes, state, 0), 8);
  EXPECT_EQ(size_of(sizes, state, 1), 8);
  // A gang that waits for more than is free, of a tenant that has no elastic job.
  add_tenant(&state, "c", 0);
  add_job(&state, 2, 12);
  EXPECT_TRUE(decide_sizes(state, speeds, {}).resizes.empty());
}

TEST(PolicySizes, TheBorrowingLimitHoldsForGrowth) {
  ClusterState state = cluster(1, 16);
  add_tenant(&state, "a", 4).borrow_limit = 3;
  add_tenant(&state, "b", 12);
  elastic_running(&state, 0, {{0, 4}}, Charge::kOwn, 16);
  EXPECT_EQ(size_of(decide_sizes(state, {speeds_of(state, 0, linear)}, {}), state, 0), 7);
  state.tenants[1].lend = GpuCounts{{2}, 0};
  EXPECT_EQ(size_of(decide_sizes(state, {speeds_of(state, 0, linear)}, {}), state, 0), 6);
}

TEST(PolicySizes, ASizeThatNeedsMoreNodesCountsAsSlowAsItIsThere) {
  ClusterState state = cluster(3, 8);
  add_tenant(&state, "a", 24);
  elastic_running(&state, 0, {{0, 2}}, Charge::kOwn, 6);
  add_running(&state, 0, {{0, 6}}, Charge::kOwn);
  JobSpeeds known = speeds_of(state, 0, linear);
  for (int n = 2; n <= 6; ++n) known.speeds.push_back({0, n, 2, 0, 0.3 * n});
  // Its own node is full: six learners would lie on two nodes, where they are slower than two on one.
  EXPECT_TRUE(decide_sizes(state, {known}, {}).resizes.empty());
  for (SizeSpeed& speed : known.speeds)
    if (speed.nodes == 2) speed.speed = 0.9 * speed.learners;
  EXPECT_EQ(size_of(decide_sizes(state, {known}, {}), state, 0), 6);
}

TEST(PolicySizes, ABadNumberIsRefusedWithTheJob) {
  ClusterState state = cluster(1, 8);
  add_tenant(&state, "a", 8);
  elastic_running(&state, 0, {{0, 4}}, Charge::kOwn, 8);
  const auto refused = [&](const std::function<void(JobSpeeds*)>& spoil) {
    std::vector<JobSpeeds> speeds = {speeds_of(state, 0, linear)};
    spoil(&speeds[0]);
    const Status status = check(state, speeds);
    return status ? std::string() : status.error().text;
  };
  EXPECT_EQ(refused([](JobSpeeds*) {}), "");
  EXPECT_NE(refused([](JobSpeeds* s) { s->speeds[2].speed = std::nan(""); }).find("a speed of job 0 is nan"),
            std::string::npos);
  EXPECT_NE(refused([](JobSpeeds* s) { s->speeds[2].type = 1; }), "");
  EXPECT_NE(refused([](JobSpeeds* s) { s->speeds[2].nodes = 9; }), "");
  EXPECT_NE(refused([](JobSpeeds* s) { s->job = 1; }), "");
  EXPECT_NE(refused([](JobSpeeds* s) { s->left_s = -1; }), "");
  EXPECT_NE(refused([](JobSpeeds* s) { s->weight = 0; }), "");
}

// Random clusters in which more jobs are elastic. `shape` of each job's speeds, by its id: linear, falling gains, flat,
// falling, slower on several nodes.
ClusterState random_elastic(Dice* dice) {
  ClusterState state = random_state(dice);
  for (Job& job : state.jobs) {
    if (dice->one_in(2)) job.max_learners += dice->from(1, 6);
    if (dice->one_in(3) && job.running) job.min_learners = 1;
    job.min_run_s = dice->one_in(6) ? 600 : 0;
    job.user = dice->from(kNobody, 1);
  }
  state.users = {"u0", "u1"};
  for (Tenant& tenant : state.tenants)
    if (dice->one_in(4)) tenant.max_user_gpus = dice->from(1, 12);
  return state;
}

std::vector<JobSpeeds> random_speeds(Dice* dice, const ClusterState& state) {
  std::vector<JobSpeeds> all;
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    if (dice->one_in(6)) continue;
    const int shape = dice->from(0, 3);
    JobSpeeds known = speeds_of(state, static_cast<int>(i), [&](int n) {
      return shape == 0 ? n : shape == 1 ? std::sqrt(n) : shape == 2 ? 1 + 0.02 * n : 10.0 / n;
    });
    if (dice->one_in(3))
      for (size_t s = 0, most = known.speeds.size(); s < most; ++s)
        if (known.speeds[s].learners > 1)
          known.speeds.push_back({known.speeds[s].type, known.speeds[s].learners, 2, 0, known.speeds[s].speed * 0.7});
    known.age_s = dice->from(0, 10'000);
    known.restarts = dice->from(0, 2);
    known.left_s = dice->from(0, 1) * dice->from(10, 50'000);
    all.push_back(std::move(known));
  }
  return all;
}

// By tenant and type: GPUs of running jobs.
std::map<std::pair<int, int>, int> held(const ClusterState& state) {
  std::map<std::pair<int, int>, int> gpus;
  for (const Job& job : state.jobs)
    if (job.running) gpus[{job.tenant, state.type_held(job)}] += job.gpus();
  return gpus;
}

void carry_out_sizes(ClusterState* state, const Sizes& sizes, std::vector<JobSpeeds>* speeds, bool reclaim) {
  carry_out(state, sizes.decision, reclaim);
  for (const Resize& resize : sizes.resizes) {
    Job& job = state->jobs[resize.job];
    if (!job.running) {
      job.charge = Charge::kBorrowed;
      job.start_s = job.checkpoint_s = state->now_s;
    }
    for (JobSpeeds& known : *speeds)
      if (known.job == resize.job && job.running) ++known.restarts;
    job.running = true;
    job.promised = false;
    job.parts = resize.parts;
  }
  state->first_running = 0;
}

// What breaks a rule after the answer was carried out, or "".
std::string broken(const ClusterState& before, const ClusterState& base, const ClusterState& after,
                   const Sizes& sizes) {
  if (const Status status = check(after); !status) return status.error().text;
  for (const Resize& resize : sizes.resizes) {
    const int n = learners_of(resize.parts);
    const Job& job = before.jobs[resize.job];
    if (n < job.min_learners || n > job.max_learners) return "a job is below MIN or above MAX";
    if (job.type != kAnyType && job.type != resize.type) return "a job has GPUs of another type than it asked for";
    if (job.running && job.learners() == n) return "a job is resized to the size that it has";
  }
  std::vector<char> wanted(before.types.size());
  for (const Waiting& waiting : decide(before).waiting)
    for (int type = 0; type < before.type_count(); ++type)
      if (waiting.reason != Reason::kQuota && waiting.reason != Reason::kBorrowLimit &&
          waiting.reason != Reason::kUserLimit &&
          (before.jobs[waiting.job].type == kAnyType || before.jobs[waiting.job].type == type))
        wanted[type] = 1;
  auto was = held(base);
  ClusterState charged = after;
  for (const Move& move : charge(charged)) carry_out(move, &charged.jobs[move.job]);
  ClusterState charged_base = base;
  for (const Move& move : charge(charged_base)) carry_out(move, &charged_base.jobs[move.job]);
  const Ledger now(charged);
  const Ledger ledger_base(charged_base);
  for (const auto& [key, gpus] : held(after))
    if (gpus > was[key] && wanted[key.second] != 0) return "a tenant took GPUs that others wait for";
  for (size_t i = 0; i < before.tenants.size(); ++i) {
    const int tenant = static_cast<int>(i);
    const int limit = before.tenants[i].borrow_limit;
    if (limit != kNoLimit && now.borrowed(tenant) > std::max(limit, ledger_base.borrowed(tenant)))
      return "a borrowing limit is exceeded";
  }
  // What is a tenant's own it may take, whatever others keep from being lent.
  for (int type = 0; type < before.type_count(); ++type)
    for (size_t i = 0; i < before.tenants.size(); ++i)
      if (now.borrowed(static_cast<int>(i), type) > ledger_base.borrowed(static_cast<int>(i), type) &&
          ledger_base.lendable(type, 0) && !now.lendable(type, 0))
        return "more is borrowed than the others lend";
  const UserLimits users(after);
  const UserLimits users_base(base);
  for (const Job& job : after.jobs)
    if (job.running && users.concerns(job) && users.held(job) > std::max(users.limit(job), users_base.held(job)))
      return "a user holds too much";
  return "";
}

// What a tenant's jobs are worth in the sum of speed-ups, once changes are charged; nothing where that is not known
// from the speeds alone: where these depend on nodes, or jobs start that decide() would have let wait.
std::optional<double> value_of(const ClusterState& before, const Decision& base, const std::vector<JobSpeeds>& speeds,
                               const std::vector<Resize>& resizes, int tenant) {
  std::map<int, int> size;  // by job, in decide()'s answer
  for (const Start& start : base.starts) size[start.job] = learners_of(start.parts);
  std::map<int, int> changed;
  for (const Resize& resize : resizes) {
    if (resize.starts && size.count(resize.job) == 0 && before.jobs[resize.job].tenant == tenant) return std::nullopt;
    changed[resize.job] = learners_of(resize.parts);
  }
  double sum = 0;
  for (const JobSpeeds& known : speeds) {
    const Job& job = before.jobs[known.job];
    if (job.tenant != tenant || (!job.running && size.count(known.job) == 0)) continue;
    if (std::any_of(known.speeds.begin(), known.speeds.end(), [](const SizeSpeed& s) { return s.nodes > 1; }))
      return std::nullopt;
    const int was = job.running ? job.learners() : size[known.job];
    const int now = changed.count(known.job) != 0 ? changed[known.job] : was;
    const auto speed = [&](int n) { return known.speeds[static_cast<size_t>(n - job.min_learners)].speed; };
    double value = speed(now) / speed(job.min_learners);
    if (now != was) {
      const double restart = job.running ? static_cast<double>(std::min(job.restart_s, before.most_restart_s)) : 0;
      const double age = job.running ? known.age_s : 1;
      if (age + restart > 0) value *= std::max(0.0, (age - known.restarts * restart * job.running) / (age + restart));
      value *= 0.95;
    }
    sum += value;
  }
  return sum;
}

TEST(PolicySizesRandom, StayWithinWhatThePolicyAllowsAndComeToRest) {
  int resized = 0;
  int compared = 0;  // tenants of which the answer is worth more than all as it is
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Dice dice(seed);
    ClusterState state = random_elastic(&dice);
    if (seed % 3 == 1) add_groups(&dice, &state);
    if (seed % 3 == 1) add_nice(&dice, &state);
    if (!check(state)) continue;
    std::vector<JobSpeeds> speeds = random_speeds(&dice, state);
    ASSERT_TRUE(check(state, speeds)) << seed;
    SizeOptions options;
    if (seed % 2 == 0) options.objective = elastic::Objective::kSpeedUp;
    int last = -1;
    for (int round = 0; round < 30; ++round) {
      const Sizes sizes = decide_sizes(state, speeds, options);
      ClusterState base = state;
      carry_out(&base, decide(state), false);
      ClusterState after = state;
      std::vector<JobSpeeds> unused = speeds;
      carry_out_sizes(&after, sizes, &unused, false);
      ASSERT_EQ(broken(state, base, after, sizes), "") << seed << " round " << round;
      resized += static_cast<int>(sizes.resizes.size());
      for (int tenant = 0; round == 0 && seed % 2 == 0 && tenant < static_cast<int>(state.tenants.size()); ++tenant) {
        const Decision decision = decide(state);
        const auto as_it_is = value_of(state, decision, speeds, {}, tenant);
        const auto value = value_of(state, decision, speeds, sizes.resizes, tenant);
        if (!value) continue;
        ASSERT_GE(*value, *as_it_is - 1e-9) << seed;
        compared += *value > *as_it_is + 1e-9 ? 1 : 0;
      }
      if (!sizes.resizes.empty()) last = round;
      const bool rests = sizes.resizes.empty() && sizes.decision.starts.empty() && sizes.decision.reclaims.empty();
      carry_out_sizes(&state, sizes, &speeds, true);
      state.now_s += 60;
      if (rests && round > 12) break;
    }
    ASSERT_LT(last, 20) << seed << ": does not come to rest";
  }
  EXPECT_GT(resized, 5000);
  EXPECT_GT(compared, 500);
}

bool same(const std::vector<Start>& a, const std::vector<Start>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Start& x, const Start& y) {
    return x.job == y.job && x.charge == y.charge && x.type == y.type && x.parts == y.parts && x.own_part == y.own_part;
  });
}

bool same(const Decision& a, const Decision& b) {
  const auto moves = std::equal(
      a.moves.begin(), a.moves.end(), b.moves.begin(), b.moves.end(),
      [](const Move& x, const Move& y) { return x.job == y.job && x.to == y.to && x.own_part == y.own_part; });
  const auto reclaims =
      std::equal(a.reclaims.begin(), a.reclaims.end(), b.reclaims.begin(), b.reclaims.end(),
                 [](const Reclaim& x, const Reclaim& y) {
                   return x.claimant == y.claimant && x.parts == y.parts &&
                          std::equal(x.set.victims.begin(), x.set.victims.end(), y.set.victims.begin(),
                                     y.set.victims.end(), [](const Victim& v, const Victim& w) {
                                       return v.job == w.job && v.learners_left == w.learners_left;
                                     });
                 });
  const auto waiting = std::equal(
      a.waiting.begin(), a.waiting.end(), b.waiting.begin(), b.waiting.end(), [](const Waiting& x, const Waiting& y) {
        return x.job == y.job && x.reason == y.reason && x.free == y.free && x.parts == y.parts;
      });
  return moves && reclaims && waiting && same(a.starts, b.starts);
}

TEST(PolicySizesRandom, WhereNoJobCanVaryTheDecisionIsThatOfThePolicy) {
  for (uint64_t seed = 0; seed < 100000; ++seed) {
    Dice dice(seed);
    ClusterState state = random_elastic(&dice);
    for (Job& job : state.jobs) job.min_learners = job.max_learners = job.running ? job.learners() : job.min_learners;
    if (!check(state)) continue;
    const Sizes sizes = decide_sizes(state, random_speeds(&dice, state), {});
    ASSERT_TRUE(sizes.resizes.empty()) << seed;
    ASSERT_TRUE(same(sizes.decision, decide(state))) << seed;
  }
}

}  // namespace
}  // namespace dl::policy::testing
