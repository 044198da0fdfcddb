// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "slurm-plugin/observe/gres.h"
#include "tests/unit/policy_support.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using observe::GpuCount;
using observe::parse_gpus;
using observe::view_cluster;
using policy::Charge;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;
using testing::site;

TEST(GresTest, Table) {
  struct Row {
    const char* text;
    std::vector<GpuCount> gpus;
  };
  const Row rows[] = {
      {"gpu:a100:4(S:0-1)", {{"a100", 4}}},
      {"gpu:2(IDX:0-1)", {{"", 2}}},
      {"gpu", {{"", 1}}},
      {"gpu:a100", {{"a100", 1}}},
      {"gpu:a100:2(IDX:0,2),shard:8,gpu:v100:1", {{"a100", 2}, {"v100", 1}}},
      {"gres:gpu:2", {{"", 2}}},
      {"gres/gpu:a100:2", {{"a100", 2}}},
      {"gpu:a100=2", {{"a100", 2}}},
      {"gpu=2", {{"", 2}}},
      {"gres/gpu:a100=2", {{"a100", 2}}},
      {"gres/gpu=4,gres/gpu:a100=4,cpu=8", {{"a100", 4}}},
      {"gres/gpu=4,gres/gpu:a100=3", {{"", 1}, {"a100", 3}}},
      {"gpu:a100:2,gpu:a100:1", {{"a100", 3}}},
      {"", {}},
      {"(null)", {}},
      {"gpu:0", {}},
      {"gpu:a100:-1", {}},
      {"gpu:a100:9999999999", {}},
      {"gpu:a100:1:2", {}},
      {"gpu:a100:b:2", {}},
      {"gpu:", {}},
      {"gpumem:4", {}},
      {"gpu:a/b:4", {}},
      {"gpu:2(((", {{"", 2}}},
      {")))gpu:2", {}},
  };
  for (const Row& row : rows) {
    const auto gpus = parse_gpus(row.text);
    ASSERT_EQ(gpus.size(), row.gpus.size()) << row.text;
    for (size_t i = 0; i < gpus.size(); ++i) {
      EXPECT_EQ(gpus[i].type, row.gpus[i].type) << row.text;
      EXPECT_EQ(gpus[i].count, row.gpus[i].count) << row.text;
    }
  }
}

TEST(ClusterViewTest, JobsOfTenantsAreSeenWithTheirGpus) {
  auto records = cluster(2, 4);
  add_running(&records, 1, label("vision", 3, Charge::kOwn), "n[1-2]", {2, 1});
  add_pending(&records, 2, label("NLP", 1, Charge::kOwn));
  const auto view = view_cluster(site(), records, {});
  ASSERT_EQ(view.state.jobs.size(), 2U);
  const policy::Job& running = view.state.jobs[0];
  EXPECT_TRUE(running.running);
  EXPECT_EQ(running.parts, (std::vector<policy::Part>{{0, 2}, {1, 1}}));
  EXPECT_EQ(running.start_s, kNow - 1000);
  EXPECT_TRUE(running.pausable);
  EXPECT_TRUE(view.jobs[0].dlrun);
  EXPECT_EQ(view.state.jobs[1].tenant, 1);
  EXPECT_FALSE(view.state.jobs[1].running);
  EXPECT_TRUE(policy::check(view.state));
}

TEST(ClusterViewTest, OthersGpusAreNotThere) {
  auto records = cluster(1, 4);
  add_running(&records, 1, label("vision", 1, Charge::kOwn), "n1", {1}).admin_comment = "somebody's";
  add_running(&records, 2, label("stranger", 1, Charge::kOwn), "n1", {1});
  const auto view = view_cluster(site(), records, {});
  EXPECT_TRUE(view.state.jobs.empty());
  EXPECT_EQ(view.foreign_gpus, 2);
  EXPECT_EQ(view.state.nodes[0].gpus, 2);
}

TEST(ClusterViewTest, UnusableNodesKeepTheirJobs) {
  auto records = cluster(1, 4);
  records.nodes[0].usable = false;
  add_running(&records, 1, label("vision", 1, Charge::kOwn), "n1", {1});
  const auto view = view_cluster(site(), records, {});
  EXPECT_FALSE(view.state.nodes[0].usable);
  EXPECT_EQ(view.state.jobs.size(), 1U);
}

TEST(ClusterViewTest, NodesOfOneLeafSwitchAreTogether) {
  auto records = testing::cluster(5, 2);
  EXPECT_EQ(observe::view_cluster(testing::site(), records, {}).state.nodes[4].leaf_switch, 0);
  records.leaf_switches = {{"s1", "n[1-2]"}, {"torn", "n[3-"}, {"s2", "n[3-4]"}, {"s3", "n[4-400]"}};
  const auto nodes = observe::view_cluster(testing::site(), records, {}).state.nodes;
  EXPECT_EQ(nodes[0].leaf_switch, nodes[1].leaf_switch);
  EXPECT_EQ(nodes[2].leaf_switch, nodes[3].leaf_switch) << "the first switch counts";
  EXPECT_NE(nodes[0].leaf_switch, nodes[2].leaf_switch);
  EXPECT_NE(nodes[3].leaf_switch, nodes[4].leaf_switch);
}

TEST(ClusterViewTest, NobodyYieldsToAJobThatCannotStart) {
  struct Row {
    const char* what;
    observe::Wait wait;
    int64_t begins_in;
    bool decided;
  };
  const Row rows[] = {
      {"waits for resources", observe::Wait::kNothing, -5, true},
      {"waits for licences", observe::Wait::kLicenses, -5, true},
      {"held", observe::Wait::kOther, -5, false},
      {"the user wants it later", observe::Wait::kTime, 3000, false},
      {"was put back a moment ago", observe::Wait::kTime, 5, true},
  };
  for (const Row& row : rows) {
    auto records = cluster(1, 4);
    auto& job = add_pending(&records, 1, label("vision", 1, Charge::kOwn));
    job.wait = row.wait;
    job.begin_s = kNow + row.begins_in;
    const auto view = view_cluster(site(), records, {});
    EXPECT_EQ(view.state.jobs.size(), row.decided ? 1U : 0U) << row.what;
    EXPECT_EQ(view.aside.size(), row.decided ? 0U : 1U) << row.what;
  }
}

TEST(ClusterViewTest, AGateIsNotTheUsersWish) {
  auto records = cluster(1, 4);
  policy::JobLabel borrower = label("vision", 1, Charge::kBorrowed);
  borrower.tier = Tier::kBorrow;
  add_pending(&records, 1, borrower).begin_s = kNow + 55;
  borrower.begin_s = kNow + 55;
  add_pending(&records, 2, borrower).begin_s = kNow + 55;
  const auto view = view_cluster(site(), records, {});
  ASSERT_EQ(view.state.jobs.size(), 1U);
  EXPECT_EQ(view.state.jobs[0].id, 1);
  EXPECT_TRUE(view.jobs[0].gated);
  EXPECT_EQ(view.aside.size(), 1U);
}

TEST(ClusterViewTest, WhatVictimsWereAsked) {
  struct Row {
    const char* what;
    int64_t claimant, deadline_in;
    bool completing;
    int64_t yields_to;
  };
  const Row rows[] = {
      {"asked, and the claimant waits", 9, 60, false, 9},
      {"the claimant has gone", 8, 60, false, policy::kNobody},
      {"asked of an earlier attempt", 9, -890, false, policy::kNobody},
      {"on its way out", 8, 60, true, 8},
  };
  for (const Row& row : rows) {
    auto records = cluster(1, 4);
    policy::JobLabel victim = label("vision", 2, Charge::kBorrowed);
    victim.yields = policy::Yield{row.claimant, kNow + row.deadline_in, 0};
    if (row.completing) {
      add_running(&records, 1, victim, "n1", {2}).phase = observe::JobPhase::kCompleting;
    } else {
      add_running(&records, 1, victim, "n1", {2});
    }
    add_pending(&records, 9, label("nlp", 2, Charge::kOwn));
    const auto view = view_cluster(site(), records, {});
    ASSERT_EQ(view.state.jobs.size(), 2U) << row.what;
    EXPECT_EQ(view.state.jobs[0].yields_to, row.yields_to) << row.what;
    EXPECT_TRUE(policy::check(view.state)) << row.what;
  }
}

// Whatever Slurm may say, and whatever anybody may have written where he could: the state is sound.
TEST(ClusterViewTest, GpusThatAJobDoesNotUseCountAsItsCommentSaysAndOnlyIfTheSiteLendsThem) {
  struct Row {
    const char* idle;
    int gpus;
    bool whole;
  };
  const Row rows[] = {{"2@-500", 2, true},  {"1@-500", 1, false},  {"9@-500", 2, true},
                      {"2@-1000", 2, true}, {"2@-1001", 0, false},  // of an earlier attempt
                      {"2@+1", 0, false},   {"x", 0, false},       {"", 0, false}};
  for (const Row& row : rows) {
    std::string text = row.idle;
    if (const size_t at = text.find('@'); at != std::string::npos)
      text = text.substr(0, at + 1) + std::to_string(kNow + std::stoll(text.substr(at + 1)));
    for (const bool lend : {false, true}) {
      auto records = cluster(1, 2);
      add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2}).comment =
          "dl:PROCESSING attempt=1 step=3 idle=" + text + " dir=/x idle=2@5";
      observe::ViewOptions options;
      options.lend_idle = lend;
      const auto view = view_cluster(site(), records, options);
      ASSERT_EQ(view.state.jobs.size(), 1U);
      EXPECT_EQ(view.state.jobs[0].idle_gpus, row.gpus) << row.idle;
      EXPECT_EQ(view.state.jobs[0].idle, lend && row.whole) << row.idle;
    }
  }
}

TEST(ClusterViewTest, HostileRecordsGiveASoundState) {
  policy::testing::Dice dice(7);
  const std::vector<std::string> nodes = {"n1", "n[1-3]", "n[1-99999999]", "", "x[", "n1,n1,n1", "n2,n1", "\xff\x01"};
  const std::vector<std::string> gres = {"gpu:a100:2(IDX:0-1)", "gpu:9", "gpu:h100:1",      "",
                                         "gpu:a100:-4",         "(((",   "gpu:1,gpu:a100:1"};
  const std::vector<std::string> comments = {"", "dl:1", "dl:1 tenant=vision", "dl:PROCESSING", std::string(5000, 'x')};
  for (int round = 0; round < 20'000; ++round) {
    observe::Records records;
    records.now_s = kNow;
    for (int i = dice.from(0, 4); i > 0; --i)
      records.nodes.push_back({"n" + std::to_string(dice.from(1, 3)), gres[dice.from(0, 6)], dice.one_in(2)});
    for (int i = dice.from(0, 6); i > 0; --i) {
      policy::JobLabel its = label(dice.one_in(4) ? "stranger" : "vision", dice.from(1, 3),
                                   dice.one_in(2) ? Charge::kOwn : Charge::kBorrowed);
      its.learners.max += dice.from(0, 2);
      its.gpus = dice.from(1, 3);
      if (dice.one_in(3)) its.type = dice.one_in(2) ? "a100" : "h100";
      if (dice.one_in(3)) its.yields = policy::Yield{dice.from(1, 6), kNow + dice.from(-2000, 200), dice.from(0, 4)};
      auto& job = add_pending(&records, dice.from(1, 6), its);
      job.phase = static_cast<observe::JobPhase>(dice.from(0, 3));
      job.wait = static_cast<observe::Wait>(dice.from(0, 3));
      job.start_s = kNow + dice.from(-2000, 2000);
      job.begin_s = kNow + dice.from(-2000, 2000);
      if (dice.one_in(5)) job.admin_comment = comments[dice.from(0, 4)];
      job.comment = comments[dice.from(0, 4)];
      job.nodes = nodes[dice.from(0, 7)];
      for (int n = dice.from(0, 4); n > 0; --n) job.gres_by_node.push_back(gres[dice.from(0, 6)]);
    }
    const auto view = view_cluster(site(), records, {});
    const Status sound = policy::check(view.state);
    ASSERT_TRUE(sound) << "round " << round << ": " << sound.error().text;
    ASSERT_EQ(view.jobs.size(), view.state.jobs.size());
  }
}

}  // namespace
}  // namespace dl::policyd
