// SPDX-License-Identifier: Apache-2.0
// A borrower of which Slurm takes no change any more, since it gave a lost node back, gives its lent GPUs back all the
// same.
#include "slurm-plugin/policyd/sealed_jobs.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd::testing {
namespace {

using observe::JobPhase;
using observe::JobRecord;
using observe::Records;
using policy::Charge;

// A daemon, and a slurmctld that refuses each change of job 2 while that runs.
class SealedJobsTest : public ::testing::Test {
 protected:
  SealedJobsTest() {
    records_ = cluster(2, 2);
    add_running(&records_, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
    add_running(&records_, 2, label("nlp", 2, Charge::kBorrowed), "n2", {2});
    add_pending(&records_, 3, label("vision", 2, Charge::kOwn)).site_factor = 300'000;
  }
  JobRecord& lent() { return records_.jobs[1]; }
  // What the daemon does to job 2 at this time. Each that has a change is tried with Slurm.
  std::vector<Action> round(int64_t after_s) {
    records_.now_s = kNow + after_s;
    const auto changed = sealed_.with_requests(records_);
    const Records& records = changed ? *changed : records_;
    observe::ViewOptions options;
    options.min_run_s = 0;
    const auto view = observe::view_cluster(site(), records, options);
    EXPECT_TRUE(policy::check(view.state));
    std::vector<Action> actions = needed_actions(view, records, policy::decide(view.state), {60, 5});
    sealed_.leave_out_changes(&actions, records.now_s);
    std::vector<Action> its;
    for (const Action& action : actions) {
      if (action.job != 2) continue;
      its.push_back(action);
      if (action.update.empty()) continue;
      ++tried_;
      if (lent().phase == JobPhase::kRunning) {
        first_ += sealed_.refused(action, records.now_s) ? 1 : 0;
        continue;
      }
      if (action.update.admin_comment) lent().admin_comment = *action.update.admin_comment;
      if (action.update.begin_s) lent().begin_s = *action.update.begin_s;
      sealed_.made(action);
    }
    return its;
  }
  void puts_back() {
    lent().phase = JobPhase::kPending;
    lent().requeues = 1;
    lent().nodes.clear();
    lent().gres_by_node.clear();
    lent().begin_s = records_.now_s + 120;
    lent().wait = observe::Wait::kTime;
  }
  Records records_;
  SealedJobs sealed_;
  int tried_ = 0, first_ = 0;
};

TEST_F(SealedJobsTest, ItIsSignalledOnceAndRequeuedWhenItsTimeIsOverAndThenHasYielded) {
  std::vector<Action> actions = round(0);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kYield);
  EXPECT_TRUE(actions[0].signal && works_without_change(actions[0].kind));
  EXPECT_EQ(first_, 1);
  for (const int64_t later : {1, 30, 59, 62}) {
    actions = round(later);
    EXPECT_TRUE(actions.empty()) << later << " s: " << as_text(actions);
  }
  actions = round(70);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kRequeue);
  EXPECT_TRUE(actions[0].requeue);
  EXPECT_EQ(tried_, 1) << "each refusal takes slurmctld 5 s";
  puts_back();
  actions = round(72);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kReturn);
  const auto its = policy::parse_label(lent().admin_comment);
  ASSERT_TRUE(its);
  EXPECT_FALSE(its->yields);
  EXPECT_EQ(its->yielded, 3);
  EXPECT_FALSE(sealed_.with_requests(records_)) << "all of it stands in the label";
}

TEST_F(SealedJobsTest, ARequestThatIsWithdrawnIsForgotten) {
  round(0);
  records_.jobs.pop_back();  // the claim is cancelled
  EXPECT_TRUE(round(1).empty());
  EXPECT_TRUE(round(100).empty());
  EXPECT_FALSE(sealed_.with_requests(records_));
}

TEST_F(SealedJobsTest, AJobThatBeganAfterwardsIsAskedByItsLabelAgain) {
  round(0);
  lent().start_s = kNow + 20;
  lent().requeues = 1;
  const std::vector<Action> actions = round(30);
  ASSERT_EQ(actions.size(), 1U) << as_text(actions);
  EXPECT_EQ(actions[0].kind, ActionKind::kYield);
  EXPECT_TRUE(actions[0].update.admin_comment);
  EXPECT_EQ(first_, 2);
}

TEST_F(SealedJobsTest, OtherChangesAreTriedSeldomAndOtherRequestsNotAtAll) {
  Action charge;
  charge.kind = ActionKind::kCharge;
  charge.job = 2;
  charge.update.licenses = "dl_nlp:2";
  EXPECT_TRUE(sealed_.refused(charge, kNow));
  EXPECT_FALSE(sealed_.with_requests(records_));
  Action resize = charge;
  resize.kind = ActionKind::kResize;
  resize.signal = true;
  const std::vector<std::pair<int64_t, size_t>> expected = {
      {1, 0}, {SealedJobs::kFirstPauseS - 1, 0}, {SealedJobs::kFirstPauseS, 2}};
  for (const auto& [at_s, left] : expected) {
    std::vector<Action> actions = {charge, resize};
    sealed_.leave_out_changes(&actions, kNow + at_s);
    EXPECT_EQ(actions.size(), left) << at_s;
  }
  EXPECT_FALSE(sealed_.refused(charge, kNow + SealedJobs::kFirstPauseS));
  std::vector<Action> actions = {charge};
  sealed_.leave_out_changes(&actions, kNow + 3 * SealedJobs::kFirstPauseS - 1);
  EXPECT_TRUE(actions.empty());
}

}  // namespace
}  // namespace dl::policyd::testing
