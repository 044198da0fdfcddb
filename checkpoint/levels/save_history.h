// SPDX-License-Identifier: Apache-2.0
// Durations of saves, in this run and in earlier ones: the file SAVES.jsonl in the checkpoint directory, with one line
// for each of the last saves. From it the duration of the next save is predicted, even before this run has measured
// one.
//
//   {"step":1200,"bytes":1073741824,"blocked_s":0.21,"local_s":0.9,"durable_s":3.4,"slowdown_s":0.05}
//
// slowdown_s is missing if it was not measured, and in lines of older versions. Nothing depends on the file: lines that
// cannot be read or written are left out.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store/io.h"

namespace dl::ckpt {

constexpr const char* kSavesName = "SAVES.jsonl";

struct SaveTimesRow {
  int64_t step = 0;
  uint64_t bytes = 0;    // bytes of rank 0's state in the checkpoint
  double blocked_s = 0;  // time for which the training loop waited
  double local_s = 0;    // time until it was committed at the node-local level; 0: there was none
  double durable_s = 0;  // time until it was committed in the checkpoint directory; 0: it never was
  // Time by which it slowed down train steps, in total (client/step_times.h).
  std::optional<double> slowdown_s = std::nullopt;
};

class SaveHistory {
 public:
  static constexpr size_t kRows = 20;  // number of last saves that count

  // Reads what earlier runs have left. Lines that cannot be read are left out.
  void load(Io& io, const std::string& dir);
  void add(const SaveTimesRow& row);
  // Sets the slowdown of the last row if that belongs to train step `step`, since it is known only after the row was
  // added.
  void set_slowdown(int64_t step, double seconds);
  // Only for the holder of the lease.
  void store(Io& io, const std::string& dir) const;

  // The 95th percentile of the values that are not 0; 0 if there are none.
  double blocked_s() const { return percentile(&SaveTimesRow::blocked_s); }
  double local_s() const { return percentile(&SaveTimesRow::local_s); }
  double durable_s() const { return percentile(&SaveTimesRow::durable_s); }
  // The median of the known values, since a train step may be long for other reasons; 0 if there are none.
  double slowdown_s() const;
  // The training time that a save costs.
  double cost_s() const { return blocked_s() + slowdown_s(); }
  const std::deque<SaveTimesRow>& rows() const { return rows_; }

 private:
  double percentile(double SaveTimesRow::*field) const;
  std::deque<SaveTimesRow> rows_;
};

// The smallest value that at least 95 % of the values do not exceed; 0 if there are none.
double percentile_95(std::vector<double> values);
// The median; 0 if there are no values.
double median_of(std::vector<double> values);

}  // namespace dl::ckpt
