// SPDX-License-Identifier: Apache-2.0
// A value that was found in a log or another source of metrics, with its name, its time and its train step, as far as
// the source has them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/metrics/series.h"

namespace dl::metrics {

// Groups of metrics; kLauncher: what dl-metrics measures itself; kUse: what all learners of the job use.
constexpr std::string_view kTrain = "train", kValidate = "validate", kTest = "test", kLauncher = "launcher",
                           kUse = "use";

struct Found {
  std::string group, name;
  double value = 0;
  int64_t step = kNoStep;  // as the source says; kNoStep: it does not
  int64_t time_ms = 0;     // 0: now
  bool surely = true;      // true: the source names the train step; false: it was counted from batches and epochs
};

// Changes ASCII letters only, since the lower case of other letters depends on the locale.
constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower(std::string_view text);

// The group that a word of a name means: "val", "valid", "eval", "dev" and "validation" are validate, "test" and
// "testing" test, "train" and "training" train; else empty. In lower case.
std::string_view group_of_word(std::string_view word);

// A decimal number, with sign, point and exponent, or nan, inf and infinity in any case, at the beginning of the text.
// *bytes: how much of the text it is; 0: there is none.
double number_at(std::string_view text, size_t* bytes);

}  // namespace dl::metrics
