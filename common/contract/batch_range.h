// SPDX-License-Identifier: Apache-2.0
// The value of --dl-batch: the global batch sizes with which a job trains as well as its user wants. Pure; safe to call
// from any thread. batch_split.h chooses the one for a number of learners.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/contract/request_values.h"

namespace dl {

constexpr int64_t kMaxBatch = 100'000'000;

// The rule for the factor of the learning rate at a global batch that is S times the reference batch (batch_split.h).
enum class BatchRule { kNone, kLinear, kSqrt, kAdascale };
const char* batch_rule_name(BatchRule rule);  // none, linear, sqrt, adascale

// MIN:MAX[:MULTIPLE][,rule=none|linear|sqrt|adascale][,micro=N]: a global batch is a multiple of MULTIPLE from MIN to
// MAX, 1 <= MIN <= MAX <= kMaxBatch, and at least one such multiple exists. MIN is the reference batch: the program's
// own learning rate is meant for it. micro: the most samples that a learner computes at once; 0: no limit.
struct BatchRange {
  int64_t min = 1;
  int64_t max = 1;
  int64_t multiple = 1;
  BatchRule rule = BatchRule::kNone;
  int64_t micro = 0;

  int64_t smallest() const { return (min + multiple - 1) / multiple * multiple; }
  int64_t largest() const { return max / multiple * multiple; }
  bool operator==(const BatchRange& other) const {
    return min == other.min && max == other.max && multiple == other.multiple && rule == other.rule &&
           micro == other.micro;
  }
};

// kInvalid with "'VALUE' ...; allowed: ...", as the parsers of request_values.h give it.
Result<BatchRange> parse_batch(std::string_view text);
// The canonical text, which parse_batch() reads back to the same value. No blanks.
std::string format_batch(const BatchRange& batch);

// kConflict if `learners` allows more learners than the largest batch has samples: each learner needs one.
Status check_batch(const BatchRange& batch, const LearnerRange& learners);

}  // namespace dl
