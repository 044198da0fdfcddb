// SPDX-License-Identifier: Apache-2.0
// Jobs of which the quota has a part left: what they hold in Slurm, and what their label says.
#include <gtest/gtest.h>

#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using observe::JobPhase;
using observe::Records;
using policy::Charge;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;
using testing::site;

std::vector<Action> plan_for(const Records& records, const policy::ClusterState& state) {
  const auto view = observe::view_cluster(state, records, {});
  const Status sound = policy::check(view.state);
  EXPECT_TRUE(sound) << sound.error().text;
  return needed_actions(view, records, policy::decide(view.state), {});
}

const Action* action_of(const std::vector<Action>& actions, int64_t job) {
  for (const Action& action : actions)
    if (action.job == job) return &action;
  return nullptr;
}

// Of a job that exceeds what the quota has left, only the rest holds borrow tokens.
TEST(PartBorrowed, holds_borrow_tokens_for_what_exceeds_the_quota) {
  policy::ClusterState state = site(4);
  state.tenants[0].borrow_limit = 1;
  Records records = cluster(4, 2);
  add_running(&records, 1, label("vision", 1, Charge::kOwn), "n1", {1});
  add_pending(&records, 2, label("vision", 4, Charge::kOwn));
  auto actions = plan_for(records, state);
  const Action* starts = action_of(actions, 2);
  ASSERT_TRUE(starts) << as_text(actions);
  EXPECT_EQ(starts->update.licenses, "dl_vision:3,dl_vision/borrow:1");
  EXPECT_NE(starts->why.find("may borrow 1 GPUs now, beside 3 of its tenant's own"), std::string::npos) << starts->why;
  const auto its = policy::parse_label(starts->update.admin_comment.value());
  EXPECT_EQ(its->charge, Charge::kBorrowed);
  EXPECT_EQ(its->own_part, 3);
  records.jobs[1].licenses = *starts->update.licenses;
  records.jobs[1].admin_comment = *starts->update.admin_comment;
  auto& job = records.jobs[1];
  job.phase = JobPhase::kRunning;
  job.start_s = kNow - 10;
  job.nodes = "n2,n3";
  for (int i = 0; i < 2; ++i) job.gres_by_node.emplace_back("gpu:a100:2(IDX:0)");
  EXPECT_TRUE(plan_for(records, state).empty()) << as_text(plan_for(records, state));
  // The other one ends: all of it is own.
  records.jobs.erase(records.jobs.begin());
  actions = plan_for(records, state);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].update.licenses, "dl_vision:4");
  EXPECT_EQ(policy::parse_label(actions[0].update.admin_comment.value())->own_part, 0);
}

// A label of a version that charged jobs as a whole.
TEST(PartBorrowed, is_charged_in_parts_after_it_was_charged_as_a_whole) {
  policy::ClusterState state = site(2);
  state.tenants[0].borrow_limit = 4;
  Records records = cluster(2, 2);
  add_running(&records, 1, label("vision", 3, Charge::kBorrowed), "n1,n2", {2, 1}).licenses = "x,dl_vision/borrow:3";
  const auto actions = plan_for(records, state);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kCharge);
  EXPECT_EQ(actions[0].update.licenses, "x,dl_vision:2,dl_vision/borrow:1");
  EXPECT_NE(actions[0].why.find("2 GPUs of its tenant's own quota and 1 borrowed"), std::string::npos);
  records.jobs[0].licenses = *actions[0].update.licenses;
  records.jobs[0].admin_comment = *actions[0].update.admin_comment;
  EXPECT_TRUE(plan_for(records, state).empty()) << as_text(plan_for(records, state));
}

}  // namespace
}  // namespace dl::policyd
