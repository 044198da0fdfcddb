// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "common/json/json.h"

namespace dl {
namespace {

constexpr size_t kMaxDepth = 200;

}  // namespace

// Builds a Json value from the events of nlohmann's parser.
struct JsonReader {
  Json root;
  struct Level {
    Json value;
    std::string name;  // name of the member whose value comes next
  };
  std::vector<Level> open;

  bool add(Json value) {
    if (open.empty()) {
      root = std::move(value);
    } else if (auto* members = std::get_if<std::vector<JsonMember>>(&open.back().value.value_)) {
      members->push_back({std::move(open.back().name), std::move(value)});
    } else {
      std::get<std::vector<Json>>(open.back().value.value_).push_back(std::move(value));
    }
    return true;
  }
  bool start(Json value) {
    if (open.size() >= kMaxDepth) return false;
    open.push_back({std::move(value), {}});
    return true;
  }
  bool finish() {
    Json value = std::move(open.back().value);
    open.pop_back();
    if (auto* members = std::get_if<std::vector<JsonMember>>(&value.value_)) Json::keep_last(members);
    return add(std::move(value));
  }

  // nlohmann::json::sax_parse() calls functions of these names.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string& /*text*/) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  static bool binary(std::vector<uint8_t>& /*value*/) { return false; }
  bool start_object(size_t /*size*/) { return start(Json::object()); }
  bool key(std::string& name) {
    open.back().name = std::move(name);
    return true;
  }
  bool end_object() { return finish(); }
  bool start_array(size_t /*size*/) { return start(Json::array()); }
  bool end_array() { return finish(); }
  static bool parse_error(size_t /*at*/, const std::string& /*token*/, const nlohmann::json::exception& /*why*/) {
    return false;
  }

  static Json read(std::string_view text) {
    JsonReader reader;
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) reader.root.value_ = Json::Broken{};
    return std::move(reader.root);
  }
};

Json Json::parse(std::string_view text) {
  return JsonReader::read(text);
}

}  // namespace dl
