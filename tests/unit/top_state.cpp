// SPDX-License-Identifier: Apache-2.0
// What keys do: selecting, sorting, opening, and pausing after a question.
#include "tests/unit/top_support.h"

namespace dl::top {
namespace {

State three() {
  Row held = waiting("3", "paused: saved at train step 40");
  held.state = "HALTED";
  held.may_pause = false;
  held.may_resume = true;
  return state_of({training("1", 10, 0.5), training("2", 20, 0.25), held});
}

TEST(TopStateTest, TheSelectedJobStaysSelectedWhereverItMoves) {
  State state = three();
  EXPECT_EQ(state.selected, "1");
  type(&state, "j");
  EXPECT_EQ(state.selected, "2");
  Snapshot next = state.snapshot;
  next.rows.insert(next.rows.begin(), training("0", 1, 0.1));
  take(next, &state);
  EXPECT_EQ(state.selected, "2");
  EXPECT_EQ(selected_index(state), 2U);
  // It has ended: the one at its place is selected.
  next.rows.erase(next.rows.begin() + 2);
  take(next, &state);
  EXPECT_EQ(state.selected, "3");
  next.rows.clear();
  take(next, &state);
  EXPECT_EQ(state.selected, "");
  EXPECT_EQ(type(&state, "jk\rpr").kind, Action::kNone);
}

TEST(TopStateTest, NoKeyLeavesTheList) {
  State state = three();
  type(&state, "\033[A\033[A\033[5~");
  EXPECT_EQ(state.selected, "1");
  type(&state, "\033[F");
  EXPECT_EQ(state.selected, "3");
  type(&state, "jj\033[6~");
  EXPECT_EQ(state.selected, "3");
  type(&state, "\033[H");
  EXPECT_EQ(state.selected, "1");
}

TEST(TopStateTest, AJobIsPausedOnlyAfterAYes) {
  State state = three();
  EXPECT_EQ(type(&state, "p").kind, Action::kNone);
  ASSERT_TRUE(state.question);
  EXPECT_EQ(type(&state, "n").kind, Action::kNone);
  EXPECT_EQ(state.message, "nothing was done");
  EXPECT_EQ(type(&state, "p\r").kind, Action::kNone);
  EXPECT_FALSE(state.question);
  // A question that stands takes every key, also q.
  EXPECT_EQ(type(&state, "pq").kind, Action::kNone);
  const Action action = type(&state, "jpy");
  EXPECT_EQ(action.kind, Action::kPause);
  EXPECT_EQ(action.id, "2");
  EXPECT_EQ(state.message, "pausing job 2");
}

TEST(TopStateTest, AJobIsResumedOnlyIfItIsHeld) {
  State state = three();
  type(&state, "r");
  EXPECT_FALSE(state.question);
  EXPECT_EQ(state.message, "job 1 is not paused: it is PROCESSING");
  type(&state, "\033[F");
  type(&state, "p");
  EXPECT_EQ(state.message, "job 3 cannot be paused: it is HALTED");
  const Action action = type(&state, "rY");
  EXPECT_EQ(action.kind, Action::kResume);
  EXPECT_EQ(action.id, "3");
}

TEST(TopStateTest, WhatSlurmDoesNotHaveIsStartedAgainByPeople) {
  Row halted = waiting("a", "paused: saved at train step 40");
  halted.state = "HALTED";
  halted.may_pause = false;
  State state = state_of({halted});
  type(&state, "r");
  EXPECT_FALSE(state.question);
  EXPECT_EQ(state.message, "Slurm does not have job a: start it again as before, it goes on from its checkpoint");
}

TEST(TopStateTest, TheQuestionNamesWhatWouldBePaused) {
  Row element = waiting("12_[3-7]", "Priority");
  element.target = "12";
  State state = state_of({element});
  type(&state, "p");
  ASSERT_TRUE(state.question);
  EXPECT_EQ(state.question->job, "12");
  EXPECT_EQ(state.question->target, "12");
}

TEST(TopStateTest, ALookWhileAQuestionStandsDoesNotChangeItsJob) {
  State state = three();
  type(&state, "p");
  Snapshot next = state.snapshot;
  next.rows.erase(next.rows.begin());
  take(next, &state);
  EXPECT_EQ(state.selected, "2");
  EXPECT_EQ(type(&state, "y").id, "1");
}

TEST(TopStateTest, SortingGoesThroughTheColumns) {
  State state = three();
  EXPECT_EQ(state.by, Column::kState);
  type(&state, "ss");
  EXPECT_EQ(state.by, Column::kStep);
  EXPECT_EQ(order(state), "1 2 3");
  type(&state, "S");
  EXPECT_EQ(order(state), "2 1 3");
  type(&state, "<<");
  EXPECT_EQ(state.by, Column::kState);
  // The users are no column where all jobs are one user's.
  type(&state, "<<");
  EXPECT_EQ(state.by, Column::kJob);
  type(&state, "\033[D");
  EXPECT_EQ(state.by, Column::kWhy);
}

TEST(TopStateTest, EnterOpensAndEscapeGoesBack) {
  State state = three();
  Action action = type(&state, "j\r");
  EXPECT_EQ(action.kind, Action::kOpen);
  EXPECT_EQ(action.id, "2");
  EXPECT_EQ(state.opened, "2");
  type(&state, "p");
  ASSERT_TRUE(state.question);
  EXPECT_EQ(type(&state, "y").id, "2");
  action = type(&state, "\033q");  // Escape, and q
  EXPECT_EQ(action.kind, Action::kQuit);
  type(&state, "?");
  EXPECT_TRUE(state.help);
  EXPECT_EQ(type(&state, "q").kind, Action::kNone);
  EXPECT_FALSE(state.help);
  EXPECT_EQ(type(&state, "q").kind, Action::kQuit);
}

}  // namespace
}  // namespace dl::top
