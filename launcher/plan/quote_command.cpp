// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "launcher/plan/launch_plan.h"

namespace dl::plan {
namespace {

std::string replace_all(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

}  // namespace

std::string quote_command(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) {
    if (!text.empty()) text += ' ';
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("@%_+=:,./-").find(c) != std::string_view::npos;
    });
    text += plain ? word : "'" + replace_all(word, "'", "'\\''") + "'";
  }
  return text;
}

}  // namespace dl::plan
