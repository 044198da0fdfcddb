// SPDX-License-Identifier: Apache-2.0
// Numbers at the ends of their ranges, in states by the thousand: refused, or decided on without overflow, which the
// build with UndefinedBehaviorSanitizer shows (tests/Makefile.inc).
#include <gtest/gtest.h>

#include <limits>

#include "slurm-plugin/policy/quota_rows.h"
#include "slurm-plugin/policy/wanted.h"
#include "slurm-plugin/policy/why.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::Dice;
using testing::random_state;

TEST(PolicyExtremes, numbers_of_any_size_are_refused_or_decided_on) {
  int refused = 0;
  int decided = 0;
  for (int seed = 0; seed < 5000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 7'000'000);
    ClusterState state = random_state(&dice);
    const auto extreme = [&](auto* number) {
      using Number = std::remove_pointer_t<decltype(number)>;
      if (!dice.one_in(40)) return;
      const Number choices[] = {std::numeric_limits<Number>::max(),
                                std::numeric_limits<Number>::min(),
                                static_cast<Number>(kMostGpus),
                                static_cast<Number>(kLongestS),
                                0,
                                1};
      *number = choices[dice.from(0, 5)];
    };
    extreme(&state.now_s);
    extreme(&state.patience_s);
    extreme(&state.most_unsaved_s);
    extreme(&state.most_restart_s);
    for (Node& node : state.nodes) extreme(&node.gpus);
    for (Tenant& tenant : state.tenants) {
      extreme(&tenant.borrow_limit);
      extreme(&tenant.quota.any);
      for (int& gpus : tenant.quota.by_type) extreme(&gpus);
    }
    for (Job& job : state.jobs) {
      for (int64_t* time :
           {&job.submit_s, &job.restart_s, &job.min_run_s, &job.limit_s, &job.start_s, &job.checkpoint_s})
        extreme(time);
      extreme(&job.gpus_per_learner);
      extreme(&job.max_learners);
      for (Part& part : job.parts) extreme(&part.learners);
    }
    if (!check(state)) {
      ++refused;
      continue;
    }
    ++decided;
    const Decision decision = decide(state);
    ASSERT_LE(decision.starts.size(), state.jobs.size());
    std::vector<HeldBack> now(state.jobs.size());
    for (HeldBack& held : now) held = {dice.one_in(2), dice.one_in(2) ? 0 : dice.from(0, 300'000)};
    ASSERT_EQ(wanted(state, decision, now).size(), state.jobs.size());
    for (size_t i = 0; i < state.jobs.size(); ++i) (void)why(state, decision, static_cast<int>(i));
    (void)oversubscribed(state);
    (void)quota_rows(state);
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(decided, 500);
}

}  // namespace
}  // namespace dl::policy
