// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/error_file.h"

#include "common/base/atomic_file.h"
#include "common/json/json.h"
#include "launcher/agent/last_lines.h"

namespace dl::agent {

std::string parse_error_file(const std::string& text) {
  const auto json = Json::parse(text);
  if (!json.is_object()) return {};
  const auto outer = json.find("message");
  if (outer == nullptr) return {};
  const Json* message = outer;
  if (message->is_object()) {
    const auto inner = message->find("message");
    if (inner == nullptr) return {};
    message = inner;
  }
  if (!message->is_string()) return {};
  // Only the first line: the others are details of a chained error.
  LastLines line;
  const auto whole = message->get<std::string>();
  line.feed(whole.substr(0, whole.find('\n')));
  const auto lines = line.lines();
  return lines.empty() ? std::string() : lines.back();
}

std::string read_error_file(const std::string& path) {
  if (path.empty()) return {};
  const auto text = read_small_file(path, 1 << 20);
  return text ? parse_error_file(*text) : std::string();
}

}  // namespace dl::agent
