// SPDX-License-Identifier: Apache-2.0
// Which runs may be given more nodes, and what the others are told.
#include "launcher/supervise/may_grow.h"

#include <gtest/gtest.h>

#include <functional>

#include "common/contract/companion_hint.h"

namespace dl::supervise {
namespace {

// A job with --dl-learners=1:4 that trains with three learners, one of them on its companion.
GrowthFacts that_may() {
  GrowthFacts facts;
  facts.can_grow = facts.saves = facts.trains = true;
  facts.asked = {1, 4};
  facts.learners = 3;
  facts.companions = 1;
  return facts;
}

TEST(MayGrow, AJobThatHasCompanionsMayHaveAnother) {
  EXPECT_EQ(why_not_grow(that_may()), "");
}

TEST(MayGrow, WhoeverMayNotIsToldWhyAndWhatIsAllowed) {
  struct Row {
    std::function<void(GrowthFacts*)> change;
    const char* why;
  };
  const Row rows[] = {
      {[](GrowthFacts* facts) { facts->nodes = 0; }, "0 nodes cannot be added; allowed: 1 to 10000"},
      {[](GrowthFacts* facts) { facts->nodes = 10001; }, "10001 nodes cannot be added"},
      {[](GrowthFacts* facts) { facts->can_grow = false; }, "it has no allocation of Slurm's"},
      {[](GrowthFacts* facts) {
         facts->asked = {3, 3};
       },
       "it has 3 learners, and may have no more"},
      {[](GrowthFacts* facts) { facts->learners = 4; }, "it has 4 learners, and may have no more"},
      {[](GrowthFacts* facts) { facts->servers = 1; }, "it has parameter servers"},
      {[](GrowthFacts* facts) { facts->saves = false; }, "no learner can save and go on"},
      {[](GrowthFacts* facts) { facts->one_is_new = true; }, "it has asked for more nodes already"},
      {[](GrowthFacts* facts) { facts->companions = kMostCompanions; }, "it has 8 companions; allowed: up to 8"},
      {[](GrowthFacts* facts) { facts->trains = false; }, "its learners do not train at this moment"},
  };
  for (const Row& row : rows) {
    GrowthFacts facts = that_may();
    row.change(&facts);
    const std::string why = why_not_grow(facts);
    EXPECT_EQ(why.rfind(row.why, 0), 0U) << why;
    EXPECT_NE(why.find("; allowed: "), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace dl::supervise
