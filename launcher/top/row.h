// SPDX-License-Identifier: Apache-2.0
// What `dlctl top` shows of a job in its list, and in which order. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"

namespace dl::top {

// Names, reasons and losses' names come from others and are hostile. Times are milliseconds since the epoch.
struct Row {
  std::string id;      // of the row, unlike that of any other: "12.2", or the path of a job directory
  std::string job;     // how people write it: "12.2" is the second dlrun of job 12
  std::string target;  // what `dlctl pause` and `resume` are told: "12", or the path of a job directory
  std::string user, name, state, reason;
  bool may_pause = false, may_resume = false;  // it runs or waits; it is held
  bool active = false;                         // learners run
  std::optional<int64_t> since_ms;             // of the state
  std::optional<int64_t> limit_ms;             // when its time limit ends
  int attempt = 0;                             // 0: none has begun
  int learners = 0;                            // 0: unknown
  int gpus = 0;                                // of all learners; 0: none, or unknown
  std::optional<int64_t> step, saved_step, total_steps;
  std::optional<double> steps_per_s, samples_per_s;
  std::string loss_name;
  std::optional<double> loss;
  std::optional<int64_t> left_ms;   // what the rest of the training takes
  std::optional<double> gpu_use;    // of its GPUs, in per cent; none: not measured
  std::optional<double> cpus_used;  // how many CPUs it keeps busy; none: not measured
  int idle_gpus = 0;                // GPUs that it has not used for long
  std::optional<int64_t> next_save_ms;
  bool unread = false;  // its job directory cannot be read
};

Json row_json(const Row& row);
// kInvalid for anything that row_json() has not made.
Result<Row> row_of(const Json& json);

enum class Column { kJob, kUser, kName, kState, kSince, kStep, kRate, kLoss, kLeft, kGpu, kCpu, kSave, kWhy };
constexpr size_t kColumns = 13;
const char* heading_of(Column column);                   // static: "STEP"
std::optional<Column> column_of(std::string_view word);  // "step"; none if there is no such column
std::string column_words();                              // all of them, separated by commas

// The cell of a column. Texts are made harmless, but not cut.
std::string cell_of(const Row& row, Column column, int64_t now_ms);

// Sorts by the column; rows that have no value there come last, whichever the direction. Rows that are alike stand in
// the order of their jobs. By state: those that train first, then those that wait.
void sort_rows(std::vector<Row>* rows, Column by, bool descending);

}  // namespace dl::top
