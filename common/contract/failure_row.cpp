// SPDX-License-Identifier: Apache-2.0
#include "common/contract/failure_row.h"

#include <regex.h>

#include <iterator>

namespace dl {
namespace {

constexpr const char* kAnswers[] = {"restart", "exclude", "requeue", "hold", "fail"};  // in the order of enum Answer

bool has_interval(const std::string& pattern) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == '{') {
      return true;
    }
  }
  return false;
}

}  // namespace

const char* fault_name(Fault fault) {
  return fault == Fault::kYours ? "yours" : "ours";
}

std::optional<Answer> parse_answer(const std::string& name) {
  for (size_t i = 0; i < std::size(kAnswers); ++i)
    if (name == kAnswers[i]) return static_cast<Answer>(i);
  return std::nullopt;
}

bool is_log_pattern(const std::string& pattern, std::string* why) {
  *why = "1 to " + std::to_string(kMaxPatternBytes) + " printable characters";
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) return false;
  for (char c : pattern)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  *why = "no intervals such as x{2}; a brace itself is \\{";
  if (has_interval(pattern)) return false;
  regex_t compiled;
  const int rc = ::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB);
  if (rc == 0) {
    ::regfree(&compiled);
    why->clear();
    return true;
  }
  char text[128];
  ::regerror(rc, &compiled, text, sizeof text);
  *why = std::string("a POSIX extended regular expression (") + text + ")";
  return false;
}

std::optional<std::string> find_line(const std::string& pattern, const std::vector<std::string>& lines) {
  std::string why;
  if (!is_log_pattern(pattern, &why)) return std::nullopt;
  regex_t compiled;
  if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return std::nullopt;
  std::optional<std::string> found;
  for (const std::string& line : lines) {
    if (::regexec(&compiled, line.c_str(), 0, nullptr, 0) != 0) continue;
    found = line;
    break;
  }
  ::regfree(&compiled);
  return found;
}

}  // namespace dl
