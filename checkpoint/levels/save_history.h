// SPDX-License-Identifier: Apache-2.0
// How long saves took, in this run and in earlier ones: the file SAVES.jsonl in the checkpoint directory, with one line
// for each of the last saves. From it the time of the next save is predicted, even before this run has measured one.
//
//   {"step":1200,"bytes":1073741824,"blocked_s":0.21,"local_s":0.9,"durable_s":3.4,"slowdown_s":0.05}
//
// slowdown_s is missing where it was not measured, and in lines of older versions.
// Nothing depends on the file: lines that cannot be read or written are left out.
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
  uint64_t bytes = 0;    // of the checkpoint's state on rank 0
  double blocked_s = 0;  // that the training loop waited
  double local_s = 0;    // until it was committed at the node-local level; 0: there was none
  double durable_s = 0;  // until it was committed in the checkpoint directory; 0: it never was
  // That train steps beside it took longer, all together (client/step_times.h).
  std::optional<double> slowdown_s = std::nullopt;
};

class SaveHistory {
 public:
  static constexpr size_t kRows = 20;  // the last so many count

  // Reads what earlier runs have left. Lines that cannot be read are left out.
  void load(Io& io, const std::string& dir);
  void add(const SaveTimesRow& row);
  // Of the last row, if it is that of train step `step`: known only after the row was added.
  void set_slowdown(int64_t step, double seconds);
  // The holder of the lease only.
  void store(Io& io, const std::string& dir) const;

  // The 95th percentile, of those that are not 0; 0 if there are none.
  double blocked_s() const { return percentile(&SaveTimesRow::blocked_s); }
  double local_s() const { return percentile(&SaveTimesRow::local_s); }
  double durable_s() const { return percentile(&SaveTimesRow::durable_s); }
  // The median of those that are known, since a train step may be long for reasons of its own; 0 if there are none.
  double slowdown_s() const;
  // What a save takes from training.
  double cost_s() const { return blocked_s() + slowdown_s(); }
  const std::deque<SaveTimesRow>& rows() const { return rows_; }

 private:
  double percentile(double SaveTimesRow::*field) const;
  std::deque<SaveTimesRow> rows_;
};

// The smallest value that at least 95 of 100 do not exceed; 0 for none.
double percentile_95(std::vector<double> values);
// The median; 0 for no values.
double median_of(std::vector<double> values);

}  // namespace dl::ckpt
