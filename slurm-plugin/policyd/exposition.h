// SPDX-License-Identifier: Apache-2.0
// The pieces of Prometheus' text format. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dl::policyd {

// A label's value in quotes. It may come from a user, as names of jobs do: at most this many characters of it are kept,
// and a backslash, a quote and a line feed are escaped. Each byte of another control character, of what changes more
// than its own place on a screen (letters.h), and of what is not valid UTF-8, for which Prometheus would refuse the
// whole text, becomes '?'.
constexpr size_t kMostLabelCharacters = 64;
std::string label_value(std::string_view text);

// Adds the two lines that begin a metric. type: "gauge" or "counter".
void begin_metric(std::string* text, const char* name, const char* type, const char* help);

}  // namespace dl::policyd
