// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "common/json/json.h"

namespace dl {
namespace {

constexpr size_t kMaxDepth = 200;

}  // namespace

// Builds a Json value from the events of nlohmann's parser.
struct JsonReader {
  size_t max_depth = kMaxDepth;
  bool names_may_repeat = true;
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
    if (open.size() >= max_depth) return false;
    open.push_back({std::move(value), {}});
    return true;
  }
  bool finish() {
    Json value = std::move(open.back().value);
    open.pop_back();
    auto* members = std::get_if<std::vector<JsonMember>>(&value.value_);
    if (members != nullptr && Json::keep_last(members) && !names_may_repeat) return false;
    return add(std::move(value));
  }

  // nlohmann::json::sax_parse() calls functions of these names.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  // The parser calls this for integers with a sign. -0 is kept as a real number, as JavaScript does.
  bool number_integer(int64_t value) { return value == 0 ? add(-0.0) : add(value); }
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

  Json read(std::string_view text) && {
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), this)) root.value_ = Json::Broken{};
    return std::move(root);
  }
};

Json Json::parse(std::string_view text) {
  return JsonReader().read(text);
}

Json Json::parse_strictly(std::string_view text, size_t max_depth) {
  JsonReader reader;
  reader.max_depth = max_depth;
  reader.names_may_repeat = false;
  return std::move(reader).read(text);
}

}  // namespace dl
