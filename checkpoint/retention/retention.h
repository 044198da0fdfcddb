// SPDX-License-Identifier: Apache-2.0
// Decides which checkpoints of a directory are kept. Pure: no files, no clock; dlckpt gc, the library and the tests
// share it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/format/names.h"
#include "common/contract/request_values.h"

namespace dl::ckpt {

struct RetentionPolicy {
  int keep = 3;                    // newest checkpoints, >= 1
  int64_t keep_every = 0;          // those of train steps divisible by this are kept, too; 0: none
  std::optional<BestMetric> best;  // the best by a metric are kept, too
  std::set<uint64_t> held{};       // save ids of those that are being read, or wait to be sent: they stay until then
};

// The facts about one committed checkpoint on which retention depends.
struct CheckpointFacts {
  CheckpointName name;
  std::map<std::string, double> metrics;  // finite
  bool pinned = false;                    // it has a file PINNED
  bool intact = true;                     // its manifest can be read and verifies
  uint64_t bytes = 0;                     // size of its data files, for people
};

struct RetentionVerdict {
  CheckpointName name;
  bool remove = false;
  std::string reason;  // the reason of the verdict, for people
};

// Returns one verdict for each checkpoint, newest first, whatever the given order. It keeps: the newest `keep` intact
// ones, the newest one of each train step divisible by keep_every, the `best.count` best of those that have the metric
// (the newer one if values are equal), pinned ones, held ones, and just_written. Hence the newest intact one is never
// removed. A damaged one counts for none of these rules (somebody may repair it) and is removed once `keep` newer
// intact ones exist. If no checkpoint is intact, none is removed.
std::vector<RetentionVerdict> decide_retention(std::vector<CheckpointFacts> checkpoints, const RetentionPolicy& policy,
                                               const std::optional<CheckpointName>& just_written);

// The order by age that is used everywhere: generation, then train step, then save id.
bool newer(const CheckpointName& a, const CheckpointName& b);

}  // namespace dl::ckpt
