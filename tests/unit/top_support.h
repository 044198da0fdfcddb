// SPDX-License-Identifier: Apache-2.0
// Rows and states for the tests of launcher/top.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "launcher/top/frame.h"

namespace dl::top {

constexpr int64_t kTestNow = 1'790'000'000'000;

inline Row training(const std::string& job, int64_t step, std::optional<double> loss) {
  Row row;
  row.id = row.job = row.target = job;
  row.user = "alice";
  row.name = "train-" + job;
  row.state = "PROCESSING";
  row.active = row.may_pause = true;
  row.attempt = 1;
  row.step = step;
  row.loss = loss;
  row.since_ms = kTestNow - 90'000;
  return row;
}

inline Row waiting(const std::string& job, const std::string& reason) {
  Row row;
  row.id = row.job = row.target = job;
  row.user = "bob";
  row.name = "wait-" + job;
  row.state = "PENDING";
  row.reason = reason;
  row.may_pause = true;
  return row;
}

inline State state_of(std::vector<Row> rows) {
  State state;
  Snapshot snapshot;
  snapshot.time_ms = kTestNow;
  snapshot.rows = std::move(rows);
  take(std::move(snapshot), &state);
  return state;
}

inline std::string shown(State* state, int columns, int rows, bool ascii = false) {
  return plain_text(compose(state, {columns, rows, ascii, kTestNow}));
}

inline Action type(State* state, const std::string& keys) {
  Action last;
  KeyReader reader;
  for (const Press& one : reader.feed(keys)) last = press(one, state);
  return last;
}

inline std::string order(const State& state) {
  std::string jobs;
  for (const Row& row : state.snapshot.rows) jobs += (jobs.empty() ? "" : " ") + row.job;
  return jobs;
}

}  // namespace dl::top
