// SPDX-License-Identifier: Apache-2.0
// Job arrays: their waiting elements are one record of Slurm's, and several jobs to the policy.
#include <gtest/gtest.h>

#include <algorithm>

#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using observe::JobPhase;
using observe::Records;
using policy::Charge;
using policy::element_id;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;
using testing::site;

TEST(JobIdTest, NamesAreReadBack) {
  struct Row {
    const char* name;
    int64_t id;
  };
  const Row rows[] = {{"1", 1},
                      {"4294967295", 4294967295},
                      {"17_0", element_id(17, 0)},
                      {"17_4000000", element_id(17, 4000000)},
                      {"4294967295_1073741823", element_id(4294967295, 1073741823)}};
  for (const Row& row : rows) {
    EXPECT_EQ(policy::job_name(row.id), row.name);
    EXPECT_EQ(policy::parse_job_name(row.name), row.id);
    EXPECT_EQ(policy::is_element(row.id), std::string(row.name).find('_') != std::string::npos);
  }
  EXPECT_EQ(policy::array_of(element_id(17, 3)), 17);
  for (const char* name :
       {"", "0", "-1", "x", "17_", "_3", "17_-1", "17_3_4", "4294967296", "17_1073741824", "17_3 ", "0_3"})
    EXPECT_FALSE(policy::parse_job_name(name)) << name;
}

observe::JobRecord& add_array(Records* records, int64_t id, const policy::JobLabel& label,
                              const std::string& elements) {
  auto& job = add_pending(records, id, label);
  job.array = id;
  job.elements = elements;
  return job;
}

std::vector<std::string> names_of(const observe::ClusterView& view) {
  std::vector<std::string> names;
  for (const policy::Job& job : view.state.jobs) names.push_back(policy::job_name(job.id));
  return names;
}

TEST(ElementsTest, AreSeenAsTheyMayStart) {
  struct Row {
    const char* elements;
    std::vector<std::string> seen;
  };
  const Row rows[] = {
      {"0-2", {"5_0", "5_1", "5_2"}},
      {"3,7-8", {"5_3", "5_7", "5_8"}},
      {"0-8:4", {"5_0", "5_4", "5_8"}},
      {"0-9%3", {"5_0", "5_1"}},  // one of them runs already
      {"2-3,...", {"5_2", "5_3"}},
      {"1-2,3...", {"5_1", "5_2"}},
      {"0-9%1", {}},  // and may not have a sibling beside it
      {"...", {"5"}},
      {"-", {"5"}},
      {"4-2", {"5"}},
      {"4:0", {"5"}},
      {"0-4:0", {"5"}},
      {"99999999999999999999", {"5"}},
  };
  for (const Row& row : rows) {
    auto records = cluster(1, 4);
    auto& begun = add_running(&records, 6, label("vision", 1, Charge::kBorrowed), "n2", {1});
    begun.array = 5;
    begun.element = 11;
    records.jobs.back().admin_comment = "no label of ours";
    add_array(&records, 5, label("vision", 1, Charge::kOwn), row.elements);
    EXPECT_EQ(names_of(view_cluster(site(), records, {})), row.seen) << row.elements;
  }
  auto records = cluster(1, 4);
  add_array(&records, 5, label("vision", 1, Charge::kOwn), "0-1000000000");
  EXPECT_EQ(view_cluster(site(), records, {}).state.jobs.size(), observe::kElementsSeen);
}

// What slurmctld does: an element that is named gets a record of its own.
void carry_out(const std::vector<Action>& actions, Records* records) {
  for (const Action& action : actions) {
    const auto known = [&](const observe::JobRecord& record) {
      return record.element < 0 ? record.id == action.job : element_id(record.array, record.element) == action.job;
    };
    if (std::none_of(records->jobs.begin(), records->jobs.end(), known)) {
      const int64_t id = action.job;
      observe::JobRecord one;
      for (auto& record : records->jobs) {
        if (record.elements.empty() || record.array != policy::array_of(id)) continue;
        one = record;
        const std::string name = policy::job_name(id);
        one.element = std::stoll(name.substr(name.find('_') + 1));
        const size_t at = record.elements.find(std::to_string(one.element));
        record.elements.erase(at, 2);
      }
      one.elements.clear();
      one.id = 100 + one.element;
      records->jobs.push_back(one);
    }
    for (auto& job : records->jobs) {
      if (!known(job)) continue;
      if (action.update.licenses) job.licenses = *action.update.licenses;
      if (action.update.admin_comment) job.admin_comment = *action.update.admin_comment;
      if (action.update.begin_s) job.begin_s = *action.update.begin_s;
      if (action.update.site_factor) job.site_factor = *action.update.site_factor;
    }
  }
}

std::vector<Action> plan_for(const Records& records, const policy::ClusterState& state) {
  observe::ViewOptions options;
  options.gate_s = policy::kGateS;
  const auto view = observe::view_cluster(state, records, options);
  return needed_actions(view, records, policy::decide(view.state), {});
}

TEST(ElementsTest, OnlyAsManyBorrowAsAreLentTo) {
  auto state = site();
  state.tenants[0].lend = policy::GpuCounts{};
  state.tenants[0].lend->any = 1;  // vision keeps one of its two
  auto records = cluster(1, 4);
  add_array(&records, 5, label("nlp", 1, Charge::kOwn), "0,1,2,3,4,5,");
  const auto actions = plan_for(records, state);
  std::vector<std::string> jobs;
  for (const Action& action : actions) jobs.push_back(policy::job_name(action.job));
  EXPECT_EQ(jobs, (std::vector<std::string>{"5", "5_2"})) << as_text(actions);
  EXPECT_EQ(actions[1].update.licenses, "");
  EXPECT_FALSE(actions[0].update.licenses);  // the others go on waiting for own tokens
  EXPECT_NE(as_text(actions).find("job 5_2: order: may borrow 1 GPUs"), std::string::npos);
  EXPECT_NE(as_json(actions).find("\"element\": \"5_2\""), std::string::npos);
  carry_out(actions, &records);
  ASSERT_EQ(records.jobs.size(), 2U);
  EXPECT_EQ(records.jobs[0].elements, "0,1,3,4,5,");
  EXPECT_TRUE(plan_for(records, state).empty()) << as_text(plan_for(records, state));
}

TEST(ElementsTest, OwnOnesThatWaitDoNotStandBeforeTheirSiblings) {
  auto records = cluster(1, 4);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  add_array(&records, 5, label("nlp", 1, Charge::kOwn), "0,1,2,");
  const auto actions = plan_for(records, site());
  ASSERT_EQ(actions.size(), 3U) << as_text(actions);
  for (int element : {0, 1}) {
    EXPECT_EQ(actions[element].job, element_id(5, element));
    EXPECT_EQ(actions[element].update.licenses, "");
    EXPECT_GT(actions[element].update.site_factor.value(), actions[2].update.site_factor.value());
  }
  EXPECT_EQ(actions[2].job, 5);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records, site()).empty()) << as_text(plan_for(records, site()));
  for (auto& job : records.jobs) {  // both have started
    if (job.element < 0) continue;
    job.phase = JobPhase::kRunning;
    job.start_s = kNow;
    job.nodes = "n1";
    job.gres_by_node = {"gpu:a100:1"};
  }
  const auto later = plan_for(records, site());
  ASSERT_EQ(later.size(), 1U) << as_text(later);
  EXPECT_EQ(later[0].job, 5);
  EXPECT_EQ(later[0].update.site_factor, 200'000);
}

TEST(ElementsTest, ThoseThatAreNotLentToWaitBehindOneGate) {
  auto records = cluster(1, 2);
  add_running(&records, 1, label("nlp", 1, Charge::kOwn), "n1", {1});
  auto its = label("nlp", 1, Charge::kBorrowed);
  its.tier = Tier::kBorrow;
  add_array(&records, 5, its, "0,1,2,3,");
  const auto actions = plan_for(records, site());
  ASSERT_EQ(actions.size(), 2U) << as_text(actions);
  EXPECT_EQ(policy::job_name(actions[0].job), "5_0");
  EXPECT_FALSE(actions[0].update.begin_s);
  EXPECT_EQ(policy::job_name(actions[1].job), "5");
  EXPECT_EQ(actions[1].update.begin_s, kNow + policy::kGateS);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records, site()).empty()) << as_text(plan_for(records, site()));
}

TEST(ElementsTest, AClaimOfAnElementIsKnownByItsName) {
  auto records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kBorrowed), "n1", {2});
  add_running(&records, 2, label("nlp", 2, Charge::kOwn), "n2", {2});
  add_array(&records, 5, label("vision", 1, Charge::kOwn), "7,").site_factor = 200'000;
  const auto actions = plan_for(records, site());
  ASSERT_FALSE(actions.empty());
  EXPECT_EQ(actions[0].kind, ActionKind::kYield) << as_text(actions);
  EXPECT_NE(actions[0].update.admin_comment.value().find(" yields=5_7@"), std::string::npos);
  carry_out(actions, &records);
  EXPECT_TRUE(plan_for(records, site()).empty()) << as_text(plan_for(records, site()));
}

}  // namespace
}  // namespace dl::policyd
