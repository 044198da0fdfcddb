// SPDX-License-Identifier: Apache-2.0
// Lent GPUs come back from every job: what its user was told at submission decides how, not what he changes later.
#include <gtest/gtest.h>

#include "slurm-plugin/policyd/metrics.h"
#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using policy::Charge;
using policy::GiveBack;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;
using testing::site;

// nlp runs on its own quota, and with job 2 on that of vision, which claims it with job 3.
observe::Records claimed(GiveBack back) {
  observe::Records records = cluster(2, 2);
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2});
  policy::JobLabel lent = label("nlp", 2, Charge::kBorrowed);
  lent.pausable = back == GiveBack::kSave;
  lent.back = back;
  observe::JobRecord& borrower = add_running(&records, 2, lent, "n2", {2});
  borrower.requeueable = back != GiveBack::kEnd;
  borrower.comment.clear();  // a plain program: no dlrun is there to hear a signal
  add_pending(&records, 3, label("vision", 2, Charge::kOwn)).site_factor = 300'000;
  return records;
}

std::vector<Action> plan_at(const observe::Records& records, int64_t kill_wait_s = 30) {
  const auto view = observe::view_cluster(site(), records, {});
  policy::Grace grace;
  grace.kill_wait_s = kill_wait_s;
  return needed_actions(view, records, policy::decide(view.state), grace);
}

// What job 2 is to do; kCharge if nothing.
Action of_borrower(const observe::Records& records, int64_t kill_wait_s = 30) {
  for (const Action& action : plan_at(records, kill_wait_s))
    if (action.job == 2) return action;
  Action none;
  none.kind = ActionKind::kCharge;
  return none;
}

// So long after it was asked.
observe::Records later(observe::Records records, int64_t seconds) {
  const Action asked = of_borrower(records);
  EXPECT_EQ(asked.kind, ActionKind::kYield);
  records.jobs[1].admin_comment = asked.update.admin_comment.value_or("");
  records.now_s += seconds;
  return records;
}

TEST(GiveBackTest, AJobThatCannotSaveIsAskedAndThenPutBack) {
  const Action asked = of_borrower(claimed(GiveBack::kRequeue));
  ASSERT_EQ(asked.kind, ActionKind::kYield);
  EXPECT_FALSE(asked.signal);
  EXPECT_EQ(asked.notice,
            "the owner of the lent GPUs of this job needs them: in 1m30s it is put back into the queue, and will begin "
            "anew");
  EXPECT_EQ(asked.slurm_id, 2);
  EXPECT_EQ(of_borrower(later(claimed(GiveBack::kRequeue), 89)).kind, ActionKind::kCharge);
  // SIGKILL comes by the deadline, whatever it does with SIGTERM.
  const Action taken = of_borrower(later(claimed(GiveBack::kRequeue), 90));
  EXPECT_EQ(taken.kind, ActionKind::kPutBack);
  EXPECT_TRUE(taken.requeue);
  EXPECT_FALSE(taken.end);
}

TEST(GiveBackTest, AJobThatCannotBePutBackEitherIsEnded) {
  const Action asked = of_borrower(claimed(GiveBack::kEnd));
  ASSERT_EQ(asked.kind, ActionKind::kYield);
  EXPECT_EQ(asked.notice, "the owner of the lent GPUs of this job needs them: in 1m30s it is ended");
  const Action taken = of_borrower(later(claimed(GiveBack::kEnd), 90));
  EXPECT_EQ(taken.kind, ActionKind::kEnd);
  EXPECT_TRUE(taken.end);
  EXPECT_FALSE(taken.requeue);
  EXPECT_FALSE(taken.update.requeue);
}

TEST(GiveBackTest, HalfOfTheGraceIsLeftHoweverLongSlurmWaitsToKill) {
  EXPECT_EQ(of_borrower(later(claimed(GiveBack::kEnd), 59), 600).kind, ActionKind::kCharge);
  EXPECT_EQ(of_borrower(later(claimed(GiveBack::kEnd), 60), 600).kind, ActionKind::kEnd);
}

TEST(GiveBackTest, AFlagThatWasChangedLaterProtectsNobody) {
  for (const GiveBack back : {GiveBack::kSave, GiveBack::kRequeue}) {
    observe::Records records = claimed(back);
    records.jobs[1].requeueable = false;  // scontrol update requeue=0
    const Action asked = of_borrower(records);
    ASSERT_EQ(asked.kind, ActionKind::kYield);
    EXPECT_EQ(asked.update.requeue, true) << "so that dlrun, too, can put it back";
    const Action taken = of_borrower(later(records, 123));
    EXPECT_EQ(taken.kind, back == GiveBack::kSave ? ActionKind::kRequeue : ActionKind::kPutBack);
    EXPECT_TRUE(taken.requeue);
    EXPECT_EQ(taken.update.requeue, true);
  }
  // The other way round: who was told that it is ended may not stay by asking for a requeue.
  observe::Records records = claimed(GiveBack::kEnd);
  records.jobs[1].requeueable = true;
  EXPECT_EQ(of_borrower(later(records, 90)).kind, ActionKind::kEnd);
}

TEST(GiveBackTest, WhoSavesHasTheWholeGrace) {
  EXPECT_EQ(of_borrower(claimed(GiveBack::kSave)).notice, "");
  EXPECT_EQ(of_borrower(later(claimed(GiveBack::kSave), 119)).kind, ActionKind::kCharge);
  EXPECT_EQ(of_borrower(later(claimed(GiveBack::kSave), 123)).kind, ActionKind::kRequeue);
}

TEST(GiveBackTest, ALabelOfAnEarlierVersionGoesByWhatSlurmAllows) {
  observe::Records records = claimed(GiveBack::kUnknown);
  EXPECT_EQ(of_borrower(later(records, 90)).kind, ActionKind::kPutBack);
  records.jobs[1].requeueable = false;
  EXPECT_EQ(of_borrower(later(records, 90)).kind, ActionKind::kEnd);
}

TEST(GiveBackTest, OwnJobsThatCannotSaveAreLeftAlone) {
  observe::Records records = cluster(1, 2);
  policy::JobLabel own = label("vision", 2, Charge::kOwn);
  own.pausable = false;
  own.back = GiveBack::kEnd;
  add_running(&records, 1, own, "n1", {2});
  policy::JobLabel guaranteed = label("vision", 2, Charge::kOwn);
  guaranteed.tier = Tier::kGuaranteed;
  add_pending(&records, 2, guaranteed);
  for (const Action& action : plan_at(records)) EXPECT_NE(action.kind, ActionKind::kYield) << as_text({action});
}

// A random comment of the user's never changes who is asked, nor when it has to go.
TEST(GiveBackTest, NoCommentKeepsLentGpus) {
  for (const char* comment :
       {"", "dl:", "dl:PROCESSING attempt=1 step=999999999 dir=/", "dl:HALTED", "dl:COMPLETED step=-1",
        "dl:PROCESSING idle=2@1", "dl:1 tenant=vision charge=own", "\n\x1b[2J", "yields=3@99999999999:9"}) {
    observe::Records records = claimed(GiveBack::kRequeue);
    records.jobs[1].comment = comment;
    EXPECT_EQ(of_borrower(records).kind, ActionKind::kYield) << comment;
    EXPECT_EQ(of_borrower(later(records, 90)).kind, ActionKind::kPutBack) << comment;
  }
}

TEST(GiveBackTest, AClaimIsCountedWhateverTheBorrowerIsLike) {
  for (const GiveBack back : {GiveBack::kSave, GiveBack::kRequeue, GiveBack::kEnd, GiveBack::kUnknown}) {
    observe::Records records = claimed(back);
    const auto view = observe::view_cluster(site(), records, {});
    const std::string text = metrics_text(view, policy::decide(view.state), {});
    EXPECT_NE(text.find("\ndl_waiting_claims 1\n"), std::string::npos) << text;
  }
}

TEST(GiveBackTest, WhatWasDoneIsCountedByItsKind) {
  Totals totals;
  for (const ActionKind kind : {ActionKind::kRequeue, ActionKind::kPutBack, ActionKind::kPutBack, ActionKind::kEnd})
    count_action(kind, &totals);
  observe::Records records = claimed(GiveBack::kEnd);
  const auto view = observe::view_cluster(site(), records, {});
  const std::string text = metrics_text(view, policy::decide(view.state), totals);
  for (const char* line : {"what=\"requeued\"} 1\n", "what=\"put_back\"} 2\n", "what=\"ended\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

}  // namespace
}  // namespace dl::policyd
