// SPDX-License-Identifier: Apache-2.0
// Changes lines so that they stay lines of words, some of which are those that a parser looks for: without its
// comparisons a fuzzer would hardly guess them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::ckpt::fuzz {

struct Words {
  std::string_view apart;               // characters that stand between words
  std::vector<std::string_view> known;  // words
  std::vector<std::string_view> lines;  // whole lines, without what ends them
};

// One to four changes: of lines, or of words in them. A line that is JSON, a comma at its end apart, is changed as JSON
// (mutate_json()). Nothing if the result would be larger than `max_size`.
std::optional<std::string> mutate_lines(const std::string& text, const Words& words, uint32_t seed, size_t max_size);

}  // namespace dl::ckpt::fuzz
