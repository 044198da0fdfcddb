// SPDX-License-Identifier: Apache-2.0
// Rows: their order, their cells, and their way between two processes.
#include <cmath>

#include "tests/unit/top_support.h"

namespace dl::top {
namespace {

std::vector<Row> some_rows() {
  Row fast = training("10", 500, 0.25);
  fast.steps_per_s = 12.5;
  fast.left_ms = 60'000;
  Row slow = training("9", 40, 2.5);
  slow.steps_per_s = 0.5;
  slow.left_ms = 7'200'000;
  Row odd = training("12_3", 7, std::nan(""));
  return {fast, waiting("11", "Resources"), slow, odd};
}

TEST(TopRowsTest, JobsAreSortedByAnyColumnAndUnknownValuesComeLast) {
  State state = state_of(some_rows());
  EXPECT_EQ(order(state), "9 10 12_3 11");  // by state, then as numbers
  const auto by = [&](const char* column, bool descending) {
    sort_rows(&state.snapshot.rows, column_of(column).value(), descending);
    return order(state);
  };
  EXPECT_EQ(by("job", false), "9 10 11 12_3");
  EXPECT_EQ(by("job", true), "12_3 11 10 9");
  EXPECT_EQ(by("loss", false), "10 9 11 12_3");
  EXPECT_EQ(by("loss", true), "9 10 11 12_3");
  EXPECT_EQ(by("step", true), "10 9 12_3 11");
  EXPECT_EQ(by("rate", false), "9 10 11 12_3");
  EXPECT_EQ(by("left", false), "10 9 11 12_3");
  EXPECT_EQ(by("why", false), "11 9 10 12_3");
  EXPECT_EQ(by("user", true), "11 9 10 12_3");
  for (size_t i = 0; i < kColumns; ++i) sort_rows(&state.snapshot.rows, static_cast<Column>(i), i % 2 == 0);
  EXPECT_FALSE(column_of("STEP"));
  EXPECT_FALSE(column_of(""));
  EXPECT_EQ(column_words(), "job, user, name, state, since, step, rate, loss, left, gpu, cpu, save, why");
}

TEST(TopRowsTest, WhatIsNotKnownOrMeasuredIsADashAndNeverZero) {
  const Row row = waiting("7", "");
  for (const Column column : {Column::kSince, Column::kStep, Column::kRate, Column::kLoss, Column::kLeft, Column::kGpu,
                              Column::kCpu, Column::kSave})
    EXPECT_EQ(cell_of(row, column, kTestNow), "-") << heading_of(column);
  Row used = row;
  used.gpu_use = 0;
  used.cpus_used = 3.25;
  EXPECT_EQ(cell_of(used, Column::kGpu, kTestNow), "0%");
  EXPECT_EQ(cell_of(used, Column::kCpu, kTestNow), "3.25");
  Row idle = row;
  idle.idle_gpus = 2;
  EXPECT_EQ(cell_of(idle, Column::kGpu, kTestNow), "2 idle");
  Row saves = row;
  saves.next_save_ms = kTestNow + 61'000;
  EXPECT_EQ(cell_of(saves, Column::kSave, kTestNow), "1m");
  EXPECT_EQ(cell_of(saves, Column::kSave, kTestNow + 61'000), "due");
}

TEST(TopRowsTest, ALookTravelsAsOneLine) {
  Snapshot snapshot;
  snapshot.time_ms = kTestNow;
  snapshot.slurm_ms = kTestNow - 5000;
  snapshot.problem = "squeue: \"no\"\nanswer";
  snapshot.rows = some_rows();
  snapshot.rows[0].gpu_use = 31.5;
  snapshot.rows[1].loss = HUGE_VAL;
  snapshot.rows[1].may_resume = true;
  Detail detail;
  detail.id = "10";
  detail.dir = "/jobs/dl-10";
  detail.events = {{kTestNow, 1, "PROCESSING", "all learners run", 40}, {kTestNow, 0, "PENDING", "", {}}};
  detail.chart = plot::Chart{"loss",
                             "train step",
                             {{"train", "last 0.3", {{1, 0.5}, {2, std::nan("")}, {3, 0.3}}}},
                             {{2, "attempt 2", "why"}},
                             {"a note"}};
  detail.log = {"one", "two\033[2J"};
  snapshot.detail = detail;
  const std::string line = line_of(snapshot);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = snapshot_of(line);
  ASSERT_TRUE(back) << back.error().text;
  EXPECT_EQ(line_of(*back), line);
  EXPECT_EQ(back->rows[0].gpu_use, 31.5);
  EXPECT_FALSE(back->rows[1].gpu_use);
  EXPECT_EQ(back->rows[1].loss, HUGE_VAL);
  EXPECT_TRUE(std::isnan(*back->rows[3].loss));
  ASSERT_TRUE(back->detail && back->detail->chart);
  EXPECT_TRUE(std::isnan(back->detail->chart->curves[0].samples[1].y));
  EXPECT_EQ(back->detail->events[0].step, 40);
  for (const char* broken : {"", "[]", "{}", "{\"time_ms\":\"x\",\"slurm_ms\":0,\"problem\":\"\",\"rows\":[]}",
                             "{\"time_ms\":1,\"slurm_ms\":0,\"problem\":\"\",\"rows\":[{\"job\":7}]}"})
    EXPECT_FALSE(snapshot_of(broken)) << broken;
}

}  // namespace
}  // namespace dl::top
