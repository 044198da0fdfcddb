// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/json/json.h"

namespace dl {

struct JsonWriter {
  int indent = -1;
  bool sorted = false, ascii = false;
  std::string text;

  void new_line(size_t level) {
    if (indent >= 0) text.append(1, '\n').append(level * static_cast<size_t>(indent), ' ');
  }
  void write_string(const std::string& value) {
    const bool plain =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
    if (plain) {
      text.append(1, '"').append(value).append(1, '"');
    } else {
      text += nlohmann::json(value).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
    }
  }
  void write(const std::vector<Json>& items, size_t level) {
    if (items.empty()) {
      text += "[]";
      return;
    }
    for (const Json& item : items) {
      text += &item == items.data() ? '[' : ',';
      new_line(level + 1);
      write(item, level + 1);
    }
    new_line(level);
    text += ']';
  }
  void write(const std::vector<JsonMember>& members, size_t level) {
    if (members.empty()) {
      text += "{}";
      return;
    }
    std::vector<const JsonMember*> order;
    order.reserve(members.size());
    for (const JsonMember& member : members) order.push_back(&member);
    if (sorted) std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
    for (const JsonMember* member : order) {
      text += member == order.front() ? '{' : ',';
      new_line(level + 1);
      write_string(member->name);
      text += indent >= 0 ? ": " : ":";
      write(member->value, level + 1);
    }
    new_line(level);
    text += '}';
  }
  void write(const Json& json, size_t level) {
    const auto& value = json.value_;
    if (const auto* flag = std::get_if<bool>(&value)) {
      text += *flag ? "true" : "false";
    } else if (const auto* number = std::get_if<int64_t>(&value)) {
      text += std::to_string(*number);
    } else if (const auto* large = std::get_if<uint64_t>(&value)) {
      text += std::to_string(*large);
    } else if (const auto* real = std::get_if<double>(&value)) {
      text += nlohmann::json(*real).dump();
    } else if (const auto* string = std::get_if<std::string>(&value)) {
      write_string(*string);
    } else if (const auto* items = std::get_if<std::vector<Json>>(&value)) {
      write(*items, level);
    } else if (const auto* members = std::get_if<std::vector<JsonMember>>(&value)) {
      write(*members, level);
    } else {
      text += "null";
    }
  }
  std::string whole(const Json& json) && {
    write(json, 0);
    return std::move(text);
  }
};

std::string Json::dump(int indent) const {
  return JsonWriter{indent, false, false, {}}.whole(*this);
}
std::string Json::dump_sorted(int indent) const {
  return JsonWriter{indent, true, false, {}}.whole(*this);
}
std::string Json::dump_ascii() const {
  return JsonWriter{-1, false, true, {}}.whole(*this);
}

}  // namespace dl
