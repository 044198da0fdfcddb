// SPDX-License-Identifier: Apache-2.0
// The data of an attempt: who fetches it, when the learners may start, and what a failure of it is.
#include "launcher/supervise/data_fetch.h"

#include <gtest/gtest.h>

#include "launcher/supervise/failure_class.h"
#include "launcher/supervise/restart_policy.h"
#include "tests/unit/supervise_plan.h"

namespace dl::supervise {
namespace {

using protocol::Fetched;

// Four learners on two nodes.
plan::LaunchPlan plan_with_data() {
  plan::LaunchPlan plan = plan_of(2);
  plan.learners.resize(4);
  for (int rank = 0; rank < 4; ++rank) {
    plan.learners[static_cast<size_t>(rank)].rank = rank;
    plan.learners[static_cast<size_t>(rank)].node = rank / 2;
    plan.learners[static_cast<size_t>(rank)].local_rank = rank % 2;
  }
  plan.data_program = "/libexec/dl-data";
  plan.data.emplace();
  plan.data->sources = {{"lab:x"}};
  plan.data->cache = "/c";
  plan.data->folder = "/c/jobs/7";
  return plan;
}

Fetched progress(int64_t bytes, int64_t total, bool done = false) {
  Fetched fetched;
  fetched.state = done ? "done" : "fetching";
  fetched.bytes = bytes;
  fetched.total = total;
  fetched.rate = 1 << 20;
  fetched.done = done;
  return fetched;
}

Fetched ended(int exit, const std::string& error) {
  Fetched fetched;
  fetched.exit = exit;
  fetched.error = error;
  return fetched;
}

TEST(DataFetchTest, nothing_is_asked_for_without_data) {
  DataFetch data;
  data.begin_attempt(plan_of(2));
  EXPECT_TRUE(data.ready());
  EXPECT_FALSE(data.must_ask());
  EXPECT_FALSE(data.holds(0));
  EXPECT_EQ(data.text(), "");
}

TEST(DataFetchTest, the_first_agent_of_each_node_fetches) {
  const plan::LaunchPlan plan = plan_with_data();
  DataFetch data;
  data.begin_attempt(plan);
  EXPECT_TRUE(data.must_ask());
  EXPECT_FALSE(data.ready());
  const auto asked = data.ask(plan, record::JobDir("/jobs/7"));
  EXPECT_FALSE(data.must_ask());
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].first, 0);
  EXPECT_EQ(asked[1].first, 2);
  EXPECT_EQ(asked[1].second.progress, "/jobs/7/data/fetch-n1.json");
  EXPECT_EQ(asked[1].second.command,
            (std::vector<std::string>{"/libexec/dl-data", "fetch", "--hold", "--sources", "/jobs/7/data/sources.json",
                                      "--cache", "/c", "--dest", "/c/jobs/7", "--node", "1", "--nodes", "2",
                                      "--progress", "/jobs/7/data/fetch-n1.json"}));
  EXPECT_TRUE(data.holds(2));
  EXPECT_FALSE(data.holds(1));
}

TEST(DataFetchTest, learners_start_once_all_is_there_on_all_nodes) {
  const plan::LaunchPlan plan = plan_with_data();
  DataFetch data;
  data.begin_attempt(plan);
  data.ask(plan, record::JobDir("/jobs/7"));
  EXPECT_EQ(data.text(), "looking at what there is to fetch on 2 nodes");
  EXPECT_FALSE(data.heard(0, progress(10 << 20, 20 << 20)));
  EXPECT_FALSE(data.heard(2, progress(20 << 20, 20 << 20, true)));
  EXPECT_FALSE(data.heard(1, progress(1, 1, true))) << "it was not asked";
  EXPECT_FALSE(data.ready());
  EXPECT_TRUE(data.under_way());
  EXPECT_EQ(data.text(), "fetching data: 30.0 MiB of 40.0 MiB on 2 nodes at 1.00 MiB/s, 1 of 2 nodes done");
  EXPECT_FALSE(data.heard(0, progress(20 << 20, 20 << 20, true)));
  EXPECT_TRUE(data.ready());
  EXPECT_EQ(data.text(), "");
  EXPECT_FALSE(data.heard(0, ended(0, ""))) << "its end later is no failure";
  EXPECT_TRUE(data.ready());
}

TEST(DataFetchTest, each_end_has_its_class_and_what_follows) {
  const struct {
    int exit;
    const char* name;
    const char* code;
    EndDecision::Action action;
    bool excluded;
  } rows[] = {{65, "data", "C103", EndDecision::Action::kFail, false},
              {74, "data-disk", "S302", EndDecision::Action::kRequeue, true},
              {75, "data-later", "S302", EndDecision::Action::kRequeue, false},
              {139, "data-later", "S302", EndDecision::Action::kRequeue, false}};
  for (const auto& row : rows) {
    const plan::LaunchPlan plan = plan_with_data();
    DataFetch data;
    data.begin_attempt(plan);
    data.ask(plan, record::JobDir("/jobs/7"));
    const auto failure = data.heard(2, ended(row.exit, "lab:x: no such bucket"));
    ASSERT_TRUE(failure) << row.exit;
    AttemptEnd end;
    end.failure = *failure;
    end.failure->host = "n1";
    end.failure_class = classify(*failure, {});
    EXPECT_EQ(end.failure_class.name, row.name);
    EXPECT_EQ(end.failure_class.code, row.code);
    RestartLimits limits;
    limits.can_requeue = true;
    EndDecision decision = decide_end(end, limits);
    EXPECT_EQ(decision.action, row.action) << row.exit;
    EXPECT_EQ(decision.exclude_node, row.excluded) << row.exit;
    EXPECT_EQ(decision.exit_status, 65);
    EXPECT_EQ(decision.reason, "the data could not be fetched on n1: lab:x: no such bucket");
    limits.without_data = kMostWithoutData + 1;
    decision = decide_end(end, limits);
    EXPECT_EQ(decision.action, row.exit == 65 ? EndDecision::Action::kFail : EndDecision::Action::kHold);
    limits.can_requeue = false;
    EXPECT_EQ(decide_end(end, limits).action, EndDecision::Action::kFail) << "outside of a batch job";
  }
}

TEST(DataFetchTest, attempts_without_data_are_counted_until_learners_run) {
  using record::Event;
  using record::JobState;
  const auto failed = [](int attempt) {
    Event event;
    event.attempt = attempt;
    event.learner = 0;
    event.state = JobState::kFailed;
    event.code = kDataCode;
    return event;
  };
  std::vector<Event> events = {failed(1), failed(2), failed(2), failed(3)};
  EXPECT_EQ(attempts_without_data(events), 3);
  Event halted;
  halted.attempt = 3;
  halted.learner = 1;
  halted.state = JobState::kHalted;
  events.push_back(halted);  // the others of the attempt were ended by dlrun
  EXPECT_EQ(attempts_without_data(events), 3);
  Event running;
  running.attempt = 4;
  running.state = JobState::kProcessing;
  events.push_back(running);
  EXPECT_EQ(attempts_without_data(events), 0);
}

}  // namespace
}  // namespace dl::supervise
