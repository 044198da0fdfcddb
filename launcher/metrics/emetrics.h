// SPDX-License-Identifier: Apache-2.0
// Records of metrics as JSON-lines: those of FfDL (its "emetrics"), which dl.metric() and dl_metric() write, too.
//
//   {"meta":{"time":1789000000000},"grouplabel":"train","etimes":{"iteration":{"type":"INT","value":"120"}},
//    "values":{"loss":{"type":"FLOAT","value":"0.33"},"accuracy":{"type":"FLOAT","value":"0.9"}}}
//
// A value, and the train step, may also be a plain number or a text that is one. Values that are not numbers, and
// members that are not known, are ignored. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "launcher/metrics/found.h"

namespace dl::metrics {

constexpr size_t kLongestRecord = 1 << 20;        // bytes; a longer line is ignored
constexpr int64_t kMostStep = 1'000'000'000'000;  // a larger number is not taken for a train step
constexpr size_t kMostOfRecord = 1000;            // values
// The size of a file of records in bytes, from which on dl.metric() and dl_metric() write no more to it.
constexpr int64_t kMostReported = 256 << 20;

// Adds the values of one record. Returns how many records before it the program has left out ("left_out"), mostly 0.
// kInvalid: the line is not such a record, and nothing is added.
Result<int64_t> read_emetrics(std::string_view line, std::vector<Found>* found);

}  // namespace dl::metrics
