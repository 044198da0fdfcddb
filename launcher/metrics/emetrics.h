// SPDX-License-Identifier: Apache-2.0
// Records of metrics as JSON-lines: those of FfDL (its "emetrics"), which dl.metric() and dl_metric() write, too.
//
//   {"meta":{"time":1789000000000},"grouplabel":"train","etimes":{"iteration":{"type":"INT","value":"120"}},
//    "values":{"loss":{"type":"FLOAT","value":"0.33"},"accuracy":{"type":"FLOAT","value":"0.9"}}}
//
// A value, and the train step, may also be a plain number or a text that is one. Values that are no numbers are passed
// over. Members that are not known are ignored. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "launcher/metrics/found.h"

namespace dl::metrics {

constexpr size_t kLongestRecord = 1 << 20;        // a longer line is passed over
constexpr int64_t kMostStep = 1'000'000'000'000;  // a train step beyond it is none
constexpr size_t kMostOfRecord = 1000;            // values
// Bytes of a file of records, at which dl.metric() and dl_metric() write no more to it.
constexpr int64_t kMostReported = 256 << 20;

// Adds what the record tells. Returns how many records in front of it the program has left out ("left_out"), which is 0
// mostly. kInvalid: the line is no such record; nothing is added.
Result<int64_t> read_emetrics(std::string_view line, std::vector<Found>* found);

}  // namespace dl::metrics
