// SPDX-License-Identifier: Apache-2.0
#include "common/site/toml_text.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "common/base/parse.h"

namespace dl {

void toml_assertion_failed() {
  throw std::logic_error("malformed TOML");
}

namespace {

bool asserts(std::string_view text) {
  try {
    const toml::parse_result ignored = toml::parse(text);
    return false;
  } catch (const std::logic_error&) {
    return true;
  }
}

// The line at which an assertion of toml++ fails. The parser reads from the front, so a prefix of the text fails if and
// only if it contains that place.
size_t find_faulty_line(std::string_view text) {
  std::vector<size_t> ends;  // where each line ends, in bytes from the start
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ends.push_back(i + 1);
  }
  if (ends.empty() || ends.back() != text.size()) ends.push_back(text.size());
  const auto found =
      std::partition_point(ends.begin(), ends.end(), [&](size_t end) { return !asserts(text.substr(0, end)); });
  return static_cast<size_t>(found - ends.begin()) + 1;
}

}  // namespace

Result<toml::table> parse_toml(std::string_view text, const std::string& name) {
  try {
    toml::parse_result parsed = toml::parse(text);
    if (parsed) return std::move(parsed).table();
    const toml::parse_error& error = parsed.error();
    return Error{Errc::kInvalid,
                 name + ":" + std::to_string(error.source().begin.line) + ": " + printable(error.description(), 300)};
  } catch (const std::logic_error&) {
    return Error{Errc::kInvalid,
                 name + ":" + std::to_string(find_faulty_line(text)) +
                     ": a key or a table's name is malformed; allowed: A-Z a-z 0-9 _ - or a text in quotes"};
  }
}

}  // namespace dl
