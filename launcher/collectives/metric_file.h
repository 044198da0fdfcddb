// SPDX-License-Identifier: Apache-2.0
// Appends records of metrics to the file that dlrun names in the environment of learner 0. The package dl of Python
// does the same (launcher/python/dl/reporting.py); launcher/metrics/emetrics.h says what a record is.
//
// No lock is held, so that a child process, forked while another thread reports, can report, too. A record is one
// write(), at the end of the file as it is then, so that records of threads and processes do not mix.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "launcher/collectives/include/dllearner.h"

namespace dl::learner {

constexpr size_t kMostMetricRecord = 64 << 10;  // bytes of a record
constexpr int64_t kMostMetricFile = 256 << 20;  // bytes of a file; further records are left out
constexpr int64_t kMostMetricStep = 1'000'000'000'000;
constexpr size_t kMostMetricName = 200;  // bytes

// A record with its end of line. kInvalid: what the header does not allow. Pure.
Result<std::string> metric_record(const dl_metric_value* values, size_t count, int64_t step, int group,
                                  int64_t time_ms);

// How long reporting may hold up a program: 2 s, and then a twentieth of the time since the first record. Records that
// would come beyond it are left out. Pure.
constexpr bool may_report(int64_t blocked_us, int64_t since_first_us) {
  return blocked_us <= 2'000'000 + since_first_us / 20;
}

// Writes the record of these values to the file, or leaves it out (may_report()). kInvalid as above; else an error of
// the file system, or kNoSpace if the file is full.
Status report_metric(const char* path, const dl_metric_value* values, size_t count, int64_t step, int group);

}  // namespace dl::learner
