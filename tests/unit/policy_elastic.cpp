// SPDX-License-Identifier: Apache-2.0
// The elastic optimiser: against brute force on small problems, and what must hold on large ones.
#include "slurm-plugin/policy/elastic/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "slurm-plugin/policy/elastic/admit.h"
#include "slurm-plugin/policy/elastic/value.h"

namespace dl::policy::elastic {
namespace {

// A job whose speed with g GPUs is speed(g), for g from `least` to `most`.
Job job_of(int least, int most, const std::function<double(int)>& speed, int share = 0) {
  Job job;
  job.share = share;
  for (int g = least; g <= most; ++g) job.points.push_back({0, g, 0, 0, speed(g)});
  return job;
}

Problem cluster(int gpus, std::vector<Job> jobs) {
  Problem problem;
  problem.shares = {{kNothing, {gpus}}};
  problem.jobs = std::move(jobs);
  return problem;
}

int gpus_of(const Problem& problem, const Allocation& answer, size_t job) {
  return answer.points[job] == kNothing ? 0 : problem.jobs[job].points[answer.points[job]].gpus;
}

double amdahl(int g) {
  return 1 / (0.1 + 0.9 / g);
}

TEST(PolicyElastic, TheJobThatScalesBetterGetsMore) {
  const Problem problem = cluster(8, {job_of(1, 8, [](int g) { return g; }), job_of(1, 8, amdahl)});
  const Allocation answer = optimise(problem);
  EXPECT_GT(gpus_of(problem, answer, 0), gpus_of(problem, answer, 1));
  EXPECT_EQ(gpus_of(problem, answer, 0) + gpus_of(problem, answer, 1), 8);
  EXPECT_TRUE(answer.exact);
}

TEST(PolicyElastic, SizesThatAreNotConcaveAreStillChosenBest) {
  // Powers of two alone, each of which scales: greedy single steps would see no gain from 1 to 3.
  Job powers;
  for (const int g : {1, 2, 4, 8}) powers.points.push_back({0, g, 0, 0, static_cast<double>(g)});
  const Problem problem = cluster(12, {powers, powers});
  const Allocation answer = optimise(problem);
  EXPECT_EQ(gpus_of(problem, answer, 0) + gpus_of(problem, answer, 1), 12);
}

TEST(PolicyElastic, TheBatchIsChosenWithTheGpus) {
  // With the small batch the job gains nothing from a second GPU, with the large one it does.
  Job job;
  job.points = {{0, 1, 1, 64, 100}, {0, 1, 1, 512, 90}, {0, 2, 1, 64, 101}, {0, 2, 1, 512, 180}};
  const Allocation answer = optimise(cluster(2, {job}));
  EXPECT_EQ(job.points[answer.points[0]].batch, 512);
  const Allocation alone = optimise(cluster(1, {job}));
  EXPECT_EQ(job.points[alone.points[0]].batch, 64);
}

TEST(PolicyElastic, ABatchIsNotChangedForLessThanTheLeastGain) {
  Job job;
  job.points = {{0, 2, 1, 64, 100}, {0, 2, 1, 512, 104}};
  job.now = 0;
  job.age_s = 1e9;
  job.restart_s = 1;
  EXPECT_EQ(optimise(cluster(2, {job})).points[0], 0);
  job.points[1].speed = 106;
  EXPECT_EQ(optimise(cluster(2, {job})).points[0], 1);
}

TEST(PolicyElastic, AYoungJobAndOneThatWasMovedOftenStay) {
  Job young = job_of(1, 4, [](int g) { return g; });
  young.now = 0;
  young.age_s = 10;
  young.restart_s = 60;
  EXPECT_TRUE(optimise(cluster(1 + 1, {young})).points[0] == 0);
  Job old = young;
  old.age_s = 10000;
  EXPECT_EQ(optimise(cluster(2, {old})).points[0], 1);
  old.restarts = 160;
  EXPECT_EQ(optimise(cluster(2, {old})).points[0], 0);
}

TEST(PolicyElastic, AJobWaitsIfTheSmallestSizesDoNotFitAndALaterOneMayPass) {
  const auto linear = [](int g) { return static_cast<double>(g); };
  const Problem problem = cluster(4, {job_of(2, 4, linear), job_of(3, 4, linear), job_of(1, 4, linear)});
  const Allocation answer = optimise(problem);
  EXPECT_NE(answer.points[0], kNothing);
  EXPECT_EQ(answer.points[1], kNothing);
  EXPECT_NE(answer.points[2], kNothing);
}

TEST(PolicyElastic, AYoungJobGivesWayToOneThatWaits) {
  Job young = job_of(1, 4, [](int g) { return g; });
  young.now = 3;
  young.age_s = 1;
  young.restart_s = 600;
  const Problem problem = cluster(4, {young, job_of(1, 4, amdahl)});
  EXPECT_GE(gpus_of(problem, optimise(problem), 0), 1);
  EXPECT_GE(gpus_of(problem, optimise(problem), 1), 1);
}

TEST(PolicyElastic, ForCompletionsTheShortJobComesFirstAndNobodyWaitsForEver) {
  const auto linear = [](int g) { return static_cast<double>(g); };
  Job lengthy = job_of(2, 8, linear);
  lengthy.left_s = 100'000;
  Job brief = job_of(2, 8, linear);
  brief.left_s = 3'000;
  Problem problem = cluster(8, {lengthy, brief});
  problem.objective = Objective::kCompletion;
  EXPECT_EQ(gpus_of(problem, optimise(problem), 0), 0);
  EXPECT_EQ(gpus_of(problem, optimise(problem), 1), 8);
  problem.jobs[0].waited_s = 1e8;
  EXPECT_GE(gpus_of(problem, optimise(problem), 0), 2);
  // What runs is never stopped for it.
  problem.jobs[0].waited_s = 0;
  problem.jobs[0].now = 6;
  EXPECT_EQ(gpus_of(problem, optimise(problem), 0), 2);
  EXPECT_EQ(gpus_of(problem, optimise(problem), 1), 6);
}

TEST(PolicyElastic, ForCompletionsAJobThatEndsSoonIsNotChanged) {
  Job job = job_of(1, 2, [](int g) { return g; });
  job.now = 0;
  job.restart_s = 60;
  job.left_s = 100;
  Problem problem = cluster(2, {job});
  problem.objective = Objective::kCompletion;
  EXPECT_EQ(optimise(problem).points[0], 0);
  problem.jobs[0].left_s = 1000;
  EXPECT_EQ(optimise(problem).points[0], 1);
}

TEST(PolicyElastic, LimitsOfTenantsHoldAtEachLevel) {
  const auto linear = [](int g) { return static_cast<double>(g); };
  Problem problem;
  problem.shares = {{kNothing, {16}}, {0, {6}}, {1, {4}}, {0, {16}}};
  problem.jobs = {job_of(1, 16, linear, 2), job_of(1, 16, linear, 1), job_of(1, 16, amdahl, 3)};
  const Allocation answer = optimise(problem);
  EXPECT_LE(gpus_of(problem, answer, 0), 4);
  EXPECT_EQ(gpus_of(problem, answer, 0) + gpus_of(problem, answer, 1), 6);
  EXPECT_EQ(gpus_of(problem, answer, 2), 10);
}

TEST(PolicyElastic, WhatCannotVaryIsLeftAsItIs) {
  std::vector<Job> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(job_of(2, 2, amdahl));
    jobs.back().now = 0;
  }
  const Allocation answer = optimise(cluster(9, jobs));
  EXPECT_EQ(answer.points, (std::vector<int>{0, 0, 0, 0}));
  EXPECT_TRUE(answer.kept);
}

TEST(PolicyElastic, WhatIsNotFiniteOrOutOfRangeIsRefusedWithTheJob) {
  const auto refused = [](const std::function<void(Problem*)>& spoil) {
    Problem problem = cluster(4, {job_of(1, 4, amdahl)});
    spoil(&problem);
    const Status status = check(problem);
    return status ? std::string() : status.error().text;
  };
  EXPECT_EQ(refused([](Problem*) {}), "");
  EXPECT_NE(refused([](Problem* p) { p->jobs[0].points[1].speed = std::nan(""); }).find("speed of a size of job 0"),
            std::string::npos);
  EXPECT_NE(refused([](Problem* p) { p->jobs[0].points[1].speed = -1; }), "");
  EXPECT_NE(refused([](Problem* p) { p->jobs[0].points[1].speed = std::numeric_limits<double>::infinity(); }), "");
  EXPECT_NE(refused([](Problem* p) { p->jobs[0].points[1].gpus = 0; }), "");
  EXPECT_NE(refused([](Problem* p) { p->jobs[0].points.clear(); }), "");
  EXPECT_NE(refused([](Problem* p) { p->jobs[0].now = 4; }), "");
  EXPECT_NE(refused([](Problem* p) { p->jobs[0].weight = 0; }), "");
  EXPECT_NE(refused([](Problem* p) { p->jobs[0].share = 1; }), "");
  EXPECT_NE(refused([](Problem* p) { p->shares[0].parent = 0; }), "");
  EXPECT_NE(refused([](Problem* p) { p->shares[0].gpus = {1, 2}; }), "");
  EXPECT_NE(refused([](Problem* p) { p->least_gain = 2; }), "");
}

// Random problems, with curves that fall, jump and repeat.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int from(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  double real(double high) { return std::uniform_real_distribution<double>(1e-3, high)(engine_); }

  Problem problem(int most_jobs, int most_gpus, int types) {
    Problem made;
    made.types = types;
    made.shares.push_back({kNothing, limits(types, most_gpus)});
    for (int more = from(0, 3); more > 0; --more)
      made.shares.push_back({from(0, static_cast<int>(made.shares.size()) - 1), limits(types, most_gpus)});
    for (int jobs = from(1, most_jobs); jobs > 0; --jobs) made.jobs.push_back(job(made, most_gpus));
    made.least_gain = from(0, 1) * 0.05;
    start_some(&made);
    return made;
  }

 private:
  std::vector<int> limits(int types, int most) {
    std::vector<int> gpus;
    for (int type = 0; type < types; ++type) gpus.push_back(from(0, most));
    return gpus;
  }

  Job job(const Problem& problem, int most_gpus) {
    Job job;
    job.share = from(0, static_cast<int>(problem.shares.size()) - 1);
    job.weight = from(0, 2) == 0 ? real(5) : 1;
    const int shape = from(0, 3);
    for (int points = from(1, 5); points > 0; --points) {
      const int gpus = from(1, std::max(1, most_gpus / 2));
      const double speed = shape == 0 ? gpus : shape == 1 ? std::sqrt(gpus) : shape == 2 ? real(4) : gpus * real(1.5);
      job.points.push_back({from(0, problem.types - 1), gpus, 0, from(0, 2) * 64, speed});
    }
    job.age_s = from(0, 1000);
    job.restart_s = from(0, 100);
    job.restarts = from(0, 3);
    job.left_s = from(0, 2) * real(5000);
    job.waited_s = from(0, 2) * real(5000);
    return job;
  }

  // Some run, within the limits.
  void start_some(Problem* problem) {
    std::vector<Limits> left;
    for (int type = 0; type < problem->types; ++type) left.emplace_back(*problem, type);
    for (Job& job : problem->jobs) {
      if (from(0, 1) == 0) continue;
      const int point = from(0, static_cast<int>(job.points.size()) - 1);
      const Point& at = job.points[point];
      if (left[at.type].left(job.share) < at.gpus) continue;
      left[at.type].take(job.share, at.gpus);
      job.now = point;
    }
  }

  std::mt19937_64 engine_;
};

std::string broken(const Problem& problem, const Allocation& answer) {
  std::vector<Limits> left;
  for (int type = 0; type < problem.types; ++type) left.emplace_back(problem, type);
  double value = 0;
  for (size_t i = 0; i < problem.jobs.size(); ++i) {
    if (answer.points[i] == kNothing) continue;
    const Point& at = problem.jobs[i].points[answer.points[i]];
    if (left[at.type].left(problem.jobs[i].share) < at.gpus) return "a limit is exceeded";
    left[at.type].take(problem.jobs[i].share, at.gpus);
    value += value_of(problem, static_cast<int>(i), answer.points[i]);
  }
  if (std::abs(value - answer.value) > 1e-6 * (1 + value)) return "the value is not the sum of the jobs'";
  if (answer.value > answer.bound * (1 + 1e-9)) return "the value is above the bound";
  return "";
}

// How many run, and what they are worth.
std::pair<int, double> all_as_it_is(const Problem& problem) {
  int running = 0;
  double value = 0;
  for (size_t i = 0; i < problem.jobs.size(); ++i)
    if (problem.jobs[i].now != kNothing) {
      ++running;
      value += value_of(problem, static_cast<int>(i), problem.jobs[i].now);
    }
  return {running, value};
}

// The best of all allocations that give something to exactly the jobs that are admitted. `fixed`: this job has this
// point, and its value is not counted.
double brute_force(const Problem& problem, int fixed = kNothing, int fixed_at = kNothing) {
  std::vector<Limits> left;
  for (int type = 0; type < problem.types; ++type) left.emplace_back(problem, type);
  std::vector<Limits> first = left;
  const std::vector<int> admitted = admit(problem, &first);
  double best = -1;
  const std::function<void(size_t, double)> search = [&](size_t i, double value) {
    if (i == problem.jobs.size()) {
      best = std::max(best, value);
      return;
    }
    if (admitted[i] == kNothing) return search(i + 1, value);
    if (may_wait(problem, problem.jobs[i]) && (static_cast<int>(i) != fixed || fixed_at == kNothing))
      search(i + 1, value);
    for (size_t p = 0; p < problem.jobs[i].points.size(); ++p) {
      const bool counts = static_cast<int>(i) != fixed;
      if (!counts && static_cast<int>(p) != fixed_at) continue;
      const Point& at = problem.jobs[i].points[p];
      if (left[at.type].left(problem.jobs[i].share) < at.gpus) continue;
      left[at.type].take(problem.jobs[i].share, at.gpus);
      search(i + 1, value + (counts ? value_of(problem, static_cast<int>(i), static_cast<int>(p)) : 0));
      left[at.type].take(problem.jobs[i].share, -at.gpus);
    }
  };
  search(0, 0);
  return best;
}

TEST(PolicyElasticRandom, OneTypeIsAsGoodAsBruteForce) {
  for (uint64_t seed = 0; seed < 100000; ++seed) {
    Problem problem = Random(seed).problem(5, 10, 1);
    problem.gap = 0;
    ASSERT_TRUE(check(problem)) << seed;
    const Allocation answer = optimise(problem);
    ASSERT_EQ(broken(problem, answer), "") << seed;
    ASSERT_TRUE(answer.exact) << seed;
    const double best = brute_force(problem);
    ASSERT_GE(answer.value, best - 1e-9 * (1 + best)) << seed;
    ASSERT_LE(answer.value, best + 1e-9 * (1 + best)) << seed;
    ASSERT_NEAR(answer.bound, best, 1e-9 * (1 + best)) << seed;
  }
}

TEST(PolicyElasticRandom, CompletionsAreAsGoodAsBruteForceWhichAlsoChoosesWhoWaits) {
  for (uint64_t seed = 0; seed < 40000; ++seed) {
    Problem problem = Random(seed).problem(5, 10, 1);
    problem.gap = 0;
    problem.objective = Objective::kCompletion;
    const Allocation answer = optimise(problem);
    ASSERT_EQ(broken(problem, answer), "") << seed;
    ASSERT_TRUE(answer.exact) << seed;
    const double best = brute_force(problem);
    ASSERT_NEAR(answer.value, best, 1e-9 * best) << seed;
    ASSERT_GE(answer.bound, best * (1 - 1e-9)) << seed;
  }
}

TEST(PolicyElasticRandom, WithSeveralTypesTheBoundHolds) {
  int exact = 0;
  int best_found = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    const Problem problem = Random(seed).problem(4, 8, 2);
    const Allocation answer = optimise(problem);
    ASSERT_EQ(broken(problem, answer), "") << seed;
    const double best = brute_force(problem);
    ASSERT_GE(answer.bound, best - 1e-9 * (1 + best)) << seed;
    exact += answer.exact ? 1 : 0;
    best_found += answer.value >= best * 0.999 - 1e-12 ? 1 : 0;
    if (answer.exact) {
      ASSERT_GE(answer.value, best * 0.999 - 1e-9) << seed;
    }
    Problem completions = problem;
    completions.objective = Objective::kCompletion;
    const Allocation other = optimise(completions);
    ASSERT_EQ(broken(completions, other), "") << seed;
    ASSERT_GE(other.bound, brute_force(completions) * (1 - 1e-9)) << seed;
  }
  EXPECT_GE(exact, 10500);
  EXPECT_GE(best_found, 19400);
}

TEST(PolicyElasticRandom, IsNeverWorseThanAllAsItIsAndRestsWhenCarriedOut) {
  for (uint64_t seed = 0; seed < 60000; ++seed) {
    Problem problem = Random(seed).problem(8, 24, 1 + static_cast<int>(seed % 2));
    if (seed % 4 >= 2) problem.objective = Objective::kCompletion;
    auto [running, before] = all_as_it_is(problem);
    for (int round = 0; round < 30; ++round) {
      const Allocation answer = optimise(problem);
      ASSERT_EQ(broken(problem, answer), "") << seed;
      const auto admitted = std::count_if(answer.points.begin(), answer.points.end(), [](int p) { return p >= 0; });
      ASSERT_GE(admitted, running) << seed;
      if (admitted == running || problem.objective == Objective::kCompletion) {
        ASSERT_GE(answer.value, before - 1e-9 * (1 + before)) << seed;
      }
      bool changed = false;
      for (size_t i = 0; i < problem.jobs.size(); ++i) {
        Job& job = problem.jobs[i];
        if (job.now != kNothing) {
          ASSERT_NE(answer.points[i], kNothing) << seed;
        }
        changed = changed || job.now != answer.points[i];
        if (job.now != kNothing && job.now != answer.points[i]) ++job.restarts;
        job.now = answer.points[i];
      }
      std::tie(running, before) = all_as_it_is(problem);
      if (!changed) break;
      ASSERT_LT(round, 8) << seed << ": does not come to rest";
    }
  }
}

// Whatever a program says of its speed: the others share what it leaves as well as can be, and none gets less than its
// smallest size.
TEST(PolicyElasticRandom, AProgramThatLiesAboutItsSpeedLeavesTheOthersTheirBest) {
  constexpr double kLies[] = {1e-12, 1e-3, 1, 1e6, 1e12};
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Random random(seed);
    Problem problem = random.problem(5, 10, 1 + static_cast<int>(seed % 2));
    problem.gap = 0;
    if (seed % 4 >= 2) problem.objective = Objective::kCompletion;
    Job& liar = problem.jobs.front();
    liar.left_s = kLies[random.from(0, 4)];
    for (Point& point : liar.points) point.speed = kLies[random.from(0, 4)];
    ASSERT_TRUE(check(problem)) << seed;
    const Allocation answer = optimise(problem);
    ASSERT_EQ(broken(problem, answer), "") << seed;
    if (problem.types > 1 || answer.points[0] == kNothing) continue;
    double others = 0;
    for (size_t i = 1; i < problem.jobs.size(); ++i)
      if (answer.points[i] != kNothing) others += value_of(problem, static_cast<int>(i), answer.points[i]);
    const double best = brute_force(problem, 0, answer.points[0]);
    ASSERT_GE(others, best - 1e-6 * (1 + best)) << seed;
  }
}

TEST(PolicyElastic, ASpeedUpCountsAtMostInProportionToTheGpus) {
  // The first says that it is a million times as fast on 4 GPUs; the second scales as well as can be, and is heavier.
  const auto linear = [](int g) { return static_cast<double>(g); };
  Problem problem = cluster(6, {job_of(1, 4, [](int g) { return g == 1 ? 1 : 1e6 * g; }), job_of(1, 4, linear)});
  problem.jobs[1].weight = 1.1;
  const Allocation answer = optimise(problem);
  EXPECT_EQ(gpus_of(problem, answer, 1), 4);
  EXPECT_EQ(gpus_of(problem, answer, 0), 2);
  // Of two sizes that are cut off alike the faster one is chosen.
  Job job;
  job.points = {{0, 1, 1, 64, 100}, {0, 2, 1, 64, 250}, {0, 2, 1, 512, 300}};
  EXPECT_EQ(optimise(cluster(2, {job})).points[0], 2);
}

TEST(PolicyElasticRandom, EnvelopesAloneStayWithinTheirBound) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Problem problem = Random(seed).problem(60, 400, 1);
    problem.work = 0;
    const Allocation quick = optimise(problem);
    ASSERT_EQ(broken(problem, quick), "") << seed;
    problem.work = std::numeric_limits<int64_t>::max();
    problem.gap = 0;
    const Allocation best = optimise(problem);
    ASSERT_GE(quick.bound, best.value * (1 - 1e-9)) << seed;
    ASSERT_LE(quick.value, best.value * (1 + 1e-9)) << seed;
  }
}

}  // namespace
}  // namespace dl::policy::elastic
