// SPDX-License-Identifier: Apache-2.0
// A job as it is beside the same job as it should be.
#include <gtest/gtest.h>

#include "slurm-plugin/policyd/diff.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using policy::Charge;
using testing::kNow;

Present waiting() {
  Present present;
  present.label = testing::label("nlp", 2, Charge::kOwn);
  present.admin_comment = policy::format_label(present.label);
  present.licenses = "matlab:1,dl_nlp:2";
  present.site_factor = 200'000;
  present.begin_s = kNow - 50;
  present.max_nodes = 2;
  return present;
}

Target as_it_is(const Present& present) {
  Target target;
  target.licenses = present.licenses;
  target.label = present.label;
  target.site_factor = present.site_factor;
  target.max_nodes = present.max_nodes;
  return target;
}

TEST(DiffTest, WhatIsAsItShouldBeIsLeftAlone) {
  const Present present = waiting();
  EXPECT_TRUE(diff(present, as_it_is(present), kNow).empty());
  Target nothing;
  nothing.label = present.label;
  EXPECT_TRUE(diff(present, nothing, kNow).empty());
}

TEST(DiffTest, OnlyWhatDiffersIsChanged) {
  const Present present = waiting();
  Target target = as_it_is(present);
  target.licenses = "matlab:1";
  auto update = diff(present, target, kNow);
  EXPECT_EQ(update.licenses, "matlab:1");
  EXPECT_FALSE(update.admin_comment || update.begin_s || update.site_factor || update.max_nodes || update.min_nodes);
  target = as_it_is(present);
  target.label.charge = Charge::kBorrowed;
  update = diff(present, target, kNow);
  EXPECT_EQ(update.admin_comment, policy::format_label(target.label));
  EXPECT_FALSE(update.licenses || update.begin_s || update.site_factor || update.max_nodes || update.min_nodes);
}

// A label of a later version, or one that somebody spelt otherwise, says the same.
TEST(DiffTest, ALabelThatSaysTheSameIsNotWrittenAnew) {
  Present present = waiting();
  present.admin_comment += " of_a_later_version=1";
  EXPECT_FALSE(diff(present, as_it_is(present), kNow).admin_comment);
}

TEST(DiffTest, ARankOfNoneIsChangedOnlyWhereItMatters) {
  Present present = waiting();
  Target target = as_it_is(present);
  present.site_factor = 0;
  EXPECT_EQ(diff(present, target, kNow).site_factor, 200'000);
  target.unranked_will_do = true;
  EXPECT_FALSE(diff(present, target, kNow).site_factor);
  present.site_factor = 99'999;  // from when it was its turn to borrow
  EXPECT_EQ(diff(present, target, kNow).site_factor, 200'000);
}

TEST(DiffTest, AGateIsRenewedAtHalfOfItsLease) {
  Present present = waiting();
  Target target = as_it_is(present);
  target.begin = Begin::kGated;
  target.gate_s = 60;
  EXPECT_EQ(diff(present, target, kNow).begin_s, kNow + 60);
  present.begin_s = kNow + 30;
  EXPECT_FALSE(diff(present, target, kNow).begin_s);
  EXPECT_EQ(diff(present, target, kNow + 1).begin_s, kNow + 61);
}

TEST(DiffTest, AGateIsOpenedForNoEarlierThanItsUserAsked) {
  Present present = waiting();
  Target target = as_it_is(present);
  target.begin = Begin::kOpen;
  present.begin_s = kNow + 60;
  EXPECT_FALSE(diff(present, target, kNow).begin_s) << "it is not a gate";
  present.gated = true;
  EXPECT_EQ(diff(present, target, kNow).begin_s, kNow);
  target.label.begin_s = kNow + 10;
  EXPECT_EQ(diff(present, target, kNow).begin_s, kNow + 10);
}

TEST(DiffTest, WhoComesBackDoesNotWaitForSlurmsTwoMinutes) {
  Present present = waiting();
  present.begin_s = kNow + 120;
  Target target = as_it_is(present);
  target.returned = true;
  for (const Begin begin : {Begin::kAny, Begin::kOpen}) {
    target.begin = begin;
    EXPECT_EQ(diff(present, target, kNow).begin_s, kNow + 2);
  }
  present.begin_s = kNow + 1;
  EXPECT_FALSE(diff(present, target, kNow).begin_s);
}

TEST(DiffTest, ASpreadJobGetsExactlySoManyNodes) {
  const Present present = waiting();
  Target target = as_it_is(present);
  target.min_nodes = 2;
  EXPECT_TRUE(diff(present, target, kNow).empty());
  target.min_nodes = target.max_nodes = 1;
  EXPECT_EQ(diff(present, target, kNow).max_nodes, 1U);
  EXPECT_EQ(diff(present, target, kNow).min_nodes, 1U);
  EXPECT_FALSE(diff(present, target, kNow).admin_comment) << "its number of learners is fixed";
  target.min_nodes.reset();
  EXPECT_FALSE(diff(present, target, kNow).min_nodes);
}

Present waiting_elastic() {
  Present present = waiting();
  present.label.learners = LearnerRange{1, 4};
  present.label.min_nodes = 1;
  present.label.max_nodes = 4;
  present.admin_comment = policy::format_label(present.label);
  present.min_nodes = 1;
  present.max_nodes = 4;
  return present;
}

TEST(DiffTest, AnElasticJobGetsBothEndsOfItsRangeAndItsLabelSaysSo) {
  Present present = waiting_elastic();
  Target target = as_it_is(present);
  target.min_nodes = target.max_nodes = 4;
  const observe::JobUpdate grows = diff(present, target, kNow);
  EXPECT_EQ(grows.min_nodes, 4U) << "only the smallest number differs";
  EXPECT_EQ(grows.max_nodes, 4U);
  EXPECT_TRUE(grows.cpus_of_nodes);
  ASSERT_TRUE(grows.admin_comment);
  present.admin_comment = *grows.admin_comment;
  target.label = present.label = *policy::parse_label(*grows.admin_comment);
  EXPECT_TRUE(present.label.nodes_set);
  present.min_nodes = 4;
  EXPECT_TRUE(diff(present, target, kNow).empty());
  target.min_nodes = 1;
  const observe::JobUpdate whole = diff(present, target, kNow);
  EXPECT_EQ(whole.min_nodes, 1U);
  EXPECT_EQ(whole.max_nodes, 4U);
  EXPECT_TRUE(whole.cpus_of_nodes) << "the CPUs of four nodes are not asked for any more";
  EXPECT_FALSE(whole.admin_comment) << "it says so already";
}

// Slurm 22.05 does not tell the largest number of a job that was put back.
TEST(DiffTest, WhereSlurmDoesNotTellTheLargestNumberOnlyTheWholeRangeIsNotSetAgain) {
  Present present = waiting_elastic();
  present.max_nodes = 0;
  Target target = as_it_is(present);
  target.min_nodes = 1;
  target.max_nodes = 4;
  EXPECT_TRUE(diff(present, target, kNow).empty());
  target.max_nodes = 1;
  EXPECT_EQ(diff(present, target, kNow).max_nodes, 1U);
  target.min_nodes = target.max_nodes = 4;
  EXPECT_EQ(diff(present, target, kNow).min_nodes, 4U);
}

}  // namespace
}  // namespace dl::policyd
