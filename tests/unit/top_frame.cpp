// SPDX-License-Identifier: Apache-2.0
// What stands on the terminal: wide and narrow ones, an opened job, and what is drawn of a change.
#include <random>

#include "common/base/letters.h"
#include "launcher/top/cells.h"
#include "tests/unit/top_support.h"

namespace dl::top {
namespace {

Row known(const std::string& job) {
  Row row = training(job, 400, 0.2534);
  row.steps_per_s = 2.125;
  row.total_steps = 1000;
  row.left_ms = 285'000;
  row.next_save_ms = kTestNow + 45'000;
  row.gpu_use = 87;
  row.saved_step = 380;
  return row;
}

size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(TopFrameTest, AWideTerminalShowsAllColumns) {
  State state = state_of({known("12"), waiting("13", "Resources")});
  const std::string text = shown(&state, 120, 10);
  EXPECT_EQ(lines_of(text), 10U);
  EXPECT_NE(text.find("2 jobs: 1 PENDING, 1 PROCESSING"), std::string::npos) << text;
  EXPECT_NE(text.find("  JOB  NAME      STATE+      SINCE       STEP  STEP/S   LOSS  LEFT  GPU  CPU  SAVE  WHY"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("> 12   train-12  PROCESSING     1m        400    2.12  0.253    4m  87%    -   45s"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  13   wait-13   PENDING         -          -       -      -     -    -    -     -  Resources"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("q quit  enter open  p pause  r resume  s sort  ? help\n"), std::string::npos) << text;
}

TEST(TopFrameTest, ANarrowTerminalKeepsJobAndStateAndLosesTheLeastFirst) {
  State state = state_of({known("12"), waiting("13", "Resources")});
  const std::string text = shown(&state, 40, 8);
  EXPECT_EQ(lines_of(text), 8U);
  EXPECT_NE(text.find("> 12   PROCESSING        400  0.253"), std::string::npos) << text;
  EXPECT_EQ(text.find("CPU"), std::string::npos) << text;
  // A message of any length stays in its line.
  state.message = std::string(500, 'x');
  for (const int columns : {1, 2, 5, 20, 39, 40, 80, 300})
    for (const int rows : {1, 2, 3, 4, 10, 60}) {
      const Frame frame = compose(&state, {columns, rows, false, kTestNow});
      EXPECT_LE(frame.lines.size(), static_cast<size_t>(rows));
      for (const Line& line : frame.lines) {
        size_t width = 0;
        for (const Span& span : line) width += columns_of(span.text);
        EXPECT_LE(width, static_cast<size_t>(columns)) << columns << "x" << rows << ": " << line[0].text;
      }
    }
}

TEST(TopFrameTest, TheSelectedJobIsAlwaysInSight) {
  std::vector<Row> rows;
  rows.reserve(100);
  for (int i = 0; i < 100; ++i) rows.push_back(training(std::to_string(i + 100), i, 0.5));
  State state = state_of(std::move(rows));
  for (int i = 0; i < 100; ++i) {
    const std::string text = shown(&state, 80, 12);
    EXPECT_NE(text.find("> " + std::to_string(i + 100) + " "), std::string::npos) << text;
    type(&state, "j");
  }
  EXPECT_EQ(state.page, 8U);
}

TEST(TopFrameTest, NothingHostileReachesTheTerminal) {
  Row row = training("12", 1, 0.5);
  row.name = "\033[2Jevil\x9b\u202e\n\r";
  row.reason = "\033]0;owned\a";
  row.user = "\x07root";
  row.state = "\033c";
  State state = state_of({row});
  state.all_users = true;
  state.message = "\033[6n";
  state.snapshot.problem = "\033[5i";
  for (const bool letters : {false, true}) {
    show_letters(letters);
    for (const char* keys : {"", "\r", "p", "n\033"}) {
      type(&state, keys);
      Detail detail;
      detail.id = "12";
      detail.dir = "/tmp/\033[2J";
      detail.log_name = detail.checkpoint = detail.no_chart = "\033[2J";
      detail.log = {"\033[2J", "\033]52;c;x\a", std::string(100'000, '\x1b')};
      detail.events = {{kTestNow, 1, "\033[2J", "\033[2J", 1}};
      state.snapshot.detail = detail;
      for (const Line& line : compose(&state, {200, 100, false, kTestNow}).lines)
        for (const Span& span : line)
          for (const char c : span.text) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << span.text;
    }
  }
  show_letters(false);
}

TEST(TopFrameTest, WithoutUtf8AllIsAscii) {
  State state = state_of({known("12")});
  state.snapshot.rows[0].name = std::string(200, 'n');
  Detail detail;
  detail.id = "12";
  detail.chart = plot::Chart{"loss", "train step", {{"train", "", {{1, 0.5}, {2, 0.4}, {3, 0.3}}}}, {}, {}};
  state.snapshot.detail = detail;
  for (const char* keys : {"", "\r", "?"}) {
    type(&state, keys);
    for (const char c : shown(&state, 100, 40, true)) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  }
}

TEST(TopFrameTest, AnOpenedJobShowsItsFactsItsCurveItsLinesAndWhatHappened) {
  Row row = known("12");
  row.samples_per_s = 68;
  row.loss_name = "loss";
  State state = state_of({row});
  type(&state, "\r");
  EXPECT_NE(shown(&state, 100, 40).find("reading its directory ..."), std::string::npos);
  Detail detail;
  detail.id = "12";
  detail.dir = "/jobs/dl-12";
  detail.chart = plot::Chart{"loss", "train step", {{"train", "last 0.3", {{1, 0.5}, {2, 0.4}, {3, 0.3}}}}, {}, {}};
  detail.log_name = "learner 0, attempt 1";
  detail.log = {"step 399: loss=0.26", "step 400: loss=0.25"};
  detail.events = {{kTestNow - 5000, 1, "PROCESSING", "all learners run", {}}};
  state.snapshot.detail = detail;
  const std::string text = shown(&state, 100, 60);
  for (const char* part :
       {"train step  400 of 1000, saved at 380", "rate        2.12 train steps a second, 68 samples a second",
        "left        4m, expected end ", "use         GPU 87%, CPU not measured", "next save   in 45s",
        "directory   /jobs/dl-12", "\nloss\n", "last lines of learner 0, attempt 1\nstep 399: loss=0.26\n",
        "what happened\n", "PROCESSING  attempt 1  all learners run"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  // A job that is gone stays open, with what was known.
  Snapshot gone = state.snapshot;
  gone.rows.clear();
  take(gone, &state);
  EXPECT_NE(shown(&state, 100, 60).find("not queued or running any more"), std::string::npos);
}

TEST(TopFrameTest, NobodyWaitsForADirectoryThatCannotBeRead) {
  Row row = known("12");
  row.unread = true;
  State state = state_of({row});
  type(&state, "\r");
  const std::string text = shown(&state, 100, 40);
  EXPECT_NE(text.find("its job directory cannot be read"), std::string::npos) << text;
  EXPECT_EQ(text.find("reading its directory"), std::string::npos) << text;
}

TEST(TopFrameTest, AnEmptyListSaysWhoseJobsWereLookedFor) {
  State state = state_of({});
  std::string text = shown(&state, 80, 10);
  EXPECT_NE(text.find("0 jobs of yours"), std::string::npos) << text;
  EXPECT_NE(text.find("you have no job queued or running"), std::string::npos) << text;
  state.named = true;
  text = shown(&state, 80, 10);
  EXPECT_EQ(text.find("yours"), std::string::npos) << text;
  EXPECT_NE(text.find("\nnone of these jobs is queued or running\n"), std::string::npos) << text;
  state.named = false;
  state.all_users = true;
  text = shown(&state, 80, 10);
  EXPECT_EQ(text.find("yours"), std::string::npos) << text;
  EXPECT_NE(text.find("\nno job is queued or running\n"), std::string::npos) << text;
}

TEST(TopFrameTest, AnOpenedJobIsScrolledToItsEndAndNotFurther) {
  State state = state_of({known("12")});
  type(&state, "\r");
  Detail detail;
  detail.id = "12";
  for (int i = 0; i < 50; ++i) detail.log.push_back("line " + std::to_string(i));
  detail.events = {{kTestNow, 1, "FAILED", "the last line", {}}};
  state.snapshot.detail = detail;
  EXPECT_EQ(shown(&state, 60, 12).find("the last line"), std::string::npos);
  type(&state, "\033[F");
  EXPECT_NE(shown(&state, 60, 12).find("the last line"), std::string::npos);
  const size_t end = state.scroll;
  type(&state, "\033[6~\033[B");
  EXPECT_NE(shown(&state, 60, 12).find("the last line"), std::string::npos);
  EXPECT_EQ(state.scroll, end);
  type(&state, "k");
  shown(&state, 60, 12);
  EXPECT_EQ(state.scroll, end - 1);
}

TEST(TopFrameTest, OnlyLinesThatChangeAreDrawn) {
  State state = state_of({known("12"), known("13")});
  const Frame before = compose(&state, {80, 10, false, kTestNow});
  EXPECT_EQ(drawing(before, before, true, false), "");
  state.snapshot.rows[1].step = 401;
  const Frame now = compose(&state, {80, 10, false, kTestNow});
  const std::string bytes = drawing(before, now, true, false);
  EXPECT_EQ(bytes.rfind("\033[5;1H\033[2K", 0), 0U) << bytes;
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 'H'), 1) << bytes;
  const std::string whole = drawing(before, now, true, true);
  EXPECT_EQ(whole.rfind("\033[0m\033[H\033[2J", 0), 0U);
  EXPECT_NE(whole.find("\033[32m"), std::string::npos);
  // No colours: bold and reverse are none.
  const std::string plain = drawing(before, now, false, true);
  for (const char* code : {"\033[31m", "\033[32m", "\033[33m", "\033[2m"})
    EXPECT_EQ(plain.find(code), std::string::npos);
  EXPECT_NE(plain.find("\033[7m> 12"), std::string::npos);
}

TEST(TopFrameTest, AListForAFileHasAllColumnsUncut) {
  Row row = known("12");
  row.name = std::string(60, 'n');
  row.reason = std::string(200, 'w');
  State state = state_of({row, waiting("13", "Resources")});
  const std::string text = list_text(state, kTestNow);
  EXPECT_EQ(text.rfind("JOB  NAME", 0), 0U) << text;
  EXPECT_NE(text.find(row.name + "  PROCESSING"), std::string::npos);
  EXPECT_NE(text.find(row.reason + "\n"), std::string::npos);
  state.all_users = true;
  EXPECT_EQ(list_text(state, kTestNow).rfind("JOB  USER ", 0), 0U);
}

}  // namespace
}  // namespace dl::top
