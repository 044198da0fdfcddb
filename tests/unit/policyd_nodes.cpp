// SPDX-License-Identifier: Apache-2.0
// The number of nodes that dlpolicyd sets for waiting elastic jobs, and sets back.
#include <gtest/gtest.h>

#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using observe::Records;
using policy::Charge;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;
using testing::site;

std::vector<Action> plan_for(const Records& records, const policy::ClusterState& state) {
  observe::ViewOptions options;
  options.chosen_sizes = true;
  const auto view = observe::view_cluster(state, records, options);
  const Status sound = policy::check(view.state);
  EXPECT_TRUE(sound) << sound.error().text;
  return needed_actions(view, records, policy::decide(view.state), {});
}

const Action* action_of(const std::vector<Action>& actions, int64_t job) {
  for (const Action& action : actions)
    if (action.job == job) return &action;
  return nullptr;
}

void carry_out(const std::vector<Action>& actions, Records* records) {
  for (const Action& action : actions) {
    for (auto& job : records->jobs) {
      if (job.id != action.job) continue;
      const auto& update = action.update;
      if (update.licenses) job.licenses = *update.licenses;
      if (update.admin_comment) job.admin_comment = *update.admin_comment;
      if (update.begin_s) job.begin_s = *update.begin_s;
      if (update.site_factor) job.site_factor = *update.site_factor;
      if (update.min_nodes) job.min_nodes = *update.min_nodes;
      if (update.max_nodes) job.max_nodes = *update.max_nodes;
    }
  }
}

// An elastic job of vision that waits, with one learner on each node.
observe::JobRecord& add_elastic(Records* records, int64_t id, policy::JobLabel its, int most) {
  its.learners = LearnerRange{1, most};
  its.min_nodes = 1;
  its.max_nodes = most;
  observe::JobRecord& job = add_pending(records, id, its);
  job.node_gpus = 1;
  job.min_nodes = 1;
  job.max_nodes = static_cast<uint32_t>(most);
  return job;
}

// Its size is what is decided when it is its turn. Before and after, it may start on any number of nodes of its range.
TEST(PlannedNodes, AnElasticJobHasJustTheNodesOfItsTurnAndItsRangeAgainAfterwards) {
  Records records = cluster(4, 1);
  add_running(&records, 1, label("nlp", 1, Charge::kOwn), "n1", {1});
  add_elastic(&records, 2, label("vision", 1, Charge::kOwn), 4);
  policy::ClusterState state = site(3);
  state.tenants[1].quota.any = 1;
  auto actions = plan_for(records, state);
  ASSERT_TRUE(action_of(actions, 2)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 2)->update.min_nodes, 3U);
  EXPECT_EQ(action_of(actions, 2)->update.max_nodes, 3U);
  EXPECT_TRUE(action_of(actions, 2)->update.cpus_of_nodes);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records, state).empty()) << as_text(plan_for(records, state));

  const auto has_its_range = [&](const std::vector<Action>& made) {
    const Action* action = action_of(made, 2);
    return action != nullptr && action->update.min_nodes == 1U && action->update.max_nodes == 4U &&
           action->update.cpus_of_nodes;
  };
  Records taken = records;
  add_running(&taken, 3, label("vision", 3, Charge::kOwn), "n[2-4]", {1, 1, 1});
  EXPECT_TRUE(has_its_range(plan_for(taken, state))) << as_text(plan_for(taken, state));
  carry_out(plan_for(taken, state), &taken);
  EXPECT_TRUE(plan_for(taken, state).empty()) << as_text(plan_for(taken, state));
  // Its user holds it, or Slurm does not find it three nodes.
  Records held = records;
  held.jobs[1].held = true;
  held.jobs[1].wait = observe::Wait::kOther;
  EXPECT_TRUE(has_its_range(plan_for(held, state))) << as_text(plan_for(held, state));
  EXPECT_FALSE(action_of(plan_for(held, state), 2)->update.hold);
  carry_out(plan_for(held, state), &held);
  EXPECT_TRUE(plan_for(held, state).empty()) << as_text(plan_for(held, state));
  // All four nodes are its own: of a range that was changed Slurm would take the fewest.
  records.jobs.erase(records.jobs.begin());
  state.tenants[0].quota.any = 4;
  actions = plan_for(records, state);
  ASSERT_TRUE(action_of(actions, 2)) << as_text(actions);
  EXPECT_EQ(action_of(actions, 2)->update.min_nodes, 4U);
}

// One that starts again at its smallest size is elastic all the same.
TEST(PlannedNodes, AJobThatStartsAgainAtAChosenSizeHasJustSoManyNodes) {
  for (const int learners : {1, 2}) {
    Records records = cluster(2, 1);
    policy::JobLabel elastic = label("vision", 1, Charge::kOwn);
    elastic.yields = policy::Yield{1, kNow + 60, learners};
    elastic.size = policy::ChosenSize{learners, kNow - 900};
    observe::JobRecord& job = add_elastic(&records, 1, elastic, 2);
    job.min_nodes = static_cast<uint32_t>(3 - learners);  // as it started last
    job.max_nodes = 0;                                    // Slurm 22.05 does not tell it
    const auto actions = plan_for(records, site());
    ASSERT_EQ(actions.size(), 1U) << as_text(actions);
    EXPECT_EQ(actions[0].update.min_nodes, static_cast<uint32_t>(learners));
    EXPECT_EQ(actions[0].update.max_nodes, static_cast<uint32_t>(learners));
  }
}

// Slurm gives such a job as many nodes as are free by itself, or fewer, where a constraint of its user allows no more.
// One whose range job_submit_dl has cut is changed, and so is one that was put back: Slurm 22.05 does not tell its
// range.
TEST(PlannedNodes, AJobThatMayHaveItsWholeRangeIsLeftAlone) {
  Records records = cluster(4, 1);
  add_elastic(&records, 1, label("vision", 1, Charge::kOwn), 4);
  auto actions = plan_for(records, site(4));
  ASSERT_TRUE(action_of(actions, 1)) << as_text(actions);
  EXPECT_FALSE(action_of(actions, 1)->update.min_nodes || action_of(actions, 1)->update.max_nodes);
  for (const uint32_t told : {2U, 0U}) {
    records.jobs[0].max_nodes = told;
    actions = plan_for(records, site(4));
    ASSERT_TRUE(action_of(actions, 1)) << as_text(actions);
    EXPECT_EQ(action_of(actions, 1)->update.min_nodes, 4U);
    EXPECT_EQ(action_of(actions, 1)->update.max_nodes, 4U);
  }
}

}  // namespace
}  // namespace dl::policyd
