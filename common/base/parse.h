// SPDX-License-Identifier: Apache-2.0
// Small parsers of what people type: one for each form. All reject text that follows the value, and their errors say
// what is allowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace dl {

// Decimal digits only (no sign, no blank), within [min, max]; else kInvalid "'x' is not a whole number from MIN to
// MAX".
Result<int64_t> parse_int(std::string_view text, int64_t min, int64_t max);

// "90" (seconds), "30s", "10m", "2h", "1d" or a sum in falling units such as "1h30m"; also Slurm's "MM:SS", "HH:MM:SS"
// and "D-HH:MM:SS". At most 10 years.
Result<std::chrono::seconds> parse_duration(std::string_view text);
// The shortest exact form: "10m", "1h30m", "45s"; "0s" for zero.
std::string format_duration(std::chrono::seconds value);

// "123", "4KiB", "64MiB", "2GiB", "1TiB"; also "K", "M", "G", "T" (binary, as Slurm counts). Bytes.
Result<uint64_t> parse_bytes(std::string_view text);
// "1.5 GiB", three significant digits.
std::string format_bytes(uint64_t bytes);

// Splits at `separator`; an empty text gives an empty list; empty fields are kept.
std::vector<std::string> split(std::string_view text, char separator);
// "0-3,8" as {0, 3} and {8, 8}: the first and the last number of each part, in the order of the text; nothing for an
// empty one. kInvalid: not such a list, or a number above `most`.
Result<std::vector<std::pair<int64_t, int64_t>>> parse_ranges(std::string_view text, int64_t most);
// The opposite of split(). (fmt::join is not used: its header differs between versions of fmt.)
std::string join(const std::vector<std::string>& texts, std::string_view separator);
std::string_view trim(std::string_view text);

// True if the text is 1 to max_length characters of A-Z a-z 0-9 . _ + - and starts with a letter or digit. All names of
// frameworks, versions, tiers and GPU types have to be such names, because processes of root read them.
bool is_plain_name(std::string_view text, size_t max_length = 64);

// The text with control characters and bytes outside ASCII shown as \xNN (for letters see letters.h), cut to max_length
// characters with "…" added. It makes hostile input safe to put into a message. Defined in letters.cpp.
std::string printable(std::string_view text, size_t max_length = 80);

}  // namespace dl
