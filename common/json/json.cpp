// SPDX-License-Identifier: Apache-2.0
#include "common/json/json.h"

#include <algorithm>
#include <numeric>

namespace dl {
namespace {

[[noreturn]] void wrong_type(const char* wanted) {
  throw JsonError(std::string("a value is not ") + wanted);
}

}  // namespace

bool Json::keep_last(std::vector<JsonMember>* members) {
  if (members->size() < 2) return false;
  // The names are sorted once, so that no input, however hostile, takes longer than a sort of its names.
  std::vector<size_t> order(members->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [members](size_t a, size_t b) {
    const int compared = (*members)[a].name.compare((*members)[b].name);
    return compared != 0 ? compared < 0 : a < b;
  });
  std::vector<bool> repeated(members->size());
  size_t first = order.front();
  bool any = false;
  for (size_t i = 1; i < order.size(); ++i) {
    JsonMember& member = (*members)[order[i]];
    if (member.name != (*members)[first].name) {
      first = order[i];
      continue;
    }
    (*members)[first].value = std::move(member.value);
    repeated[order[i]] = any = true;
  }
  if (!any) return false;
  size_t kept = 0;
  for (size_t i = 0; i < members->size(); ++i) {
    if (repeated[i]) continue;
    if (kept != i) (*members)[kept] = std::move((*members)[i]);
    ++kept;
  }
  members->erase(members->begin() + static_cast<std::ptrdiff_t>(kept), members->end());
  return true;
}

Json::Json() noexcept : value_(nullptr) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json::Json(std::nullptr_t) noexcept : value_(nullptr) {}
Json::Json(int value) noexcept : value_(int64_t{value}) {}
Json::Json(long value) noexcept : value_(int64_t{value}) {}
Json::Json(long long value) noexcept : value_(int64_t{value}) {}
Json::Json(unsigned value) noexcept : value_(uint64_t{value}) {}
Json::Json(unsigned long value) noexcept : value_(uint64_t{value}) {}
Json::Json(unsigned long long value) noexcept : value_(uint64_t{value}) {}
Json::Json(double value) noexcept : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}

Json::Json(std::initializer_list<Json> items) {
  const bool is_object = std::all_of(items.begin(), items.end(), [](const Json& item) {
    return item.is_array() && item.size() == 2 && item[0].is_string();
  });
  if (!is_object) {
    value_ = std::vector<Json>(items);
    return;
  }
  std::vector<JsonMember> members;
  members.reserve(items.size());
  for (const Json& item : items) members.push_back({item[0].text(), item[1]});
  keep_last(&members);
  value_ = std::move(members);
}

Json Json::array() {
  Json made;
  made.value_ = std::vector<Json>();
  return made;
}

Json Json::object() {
  Json made;
  made.value_ = std::vector<JsonMember>();
  return made;
}

bool Json::is_broken() const noexcept {
  return std::holds_alternative<Broken>(value_);
}
bool Json::is_null() const noexcept {
  return std::holds_alternative<std::nullptr_t>(value_);
}
bool Json::is_boolean() const noexcept {
  return std::holds_alternative<bool>(value_);
}
bool Json::is_number() const noexcept {
  return is_number_integer() || std::holds_alternative<double>(value_);
}
bool Json::is_number_integer() const noexcept {
  return std::holds_alternative<int64_t>(value_) || std::holds_alternative<uint64_t>(value_);
}
bool Json::is_number_unsigned() const noexcept {
  const auto* number = std::get_if<int64_t>(&value_);
  return std::holds_alternative<uint64_t>(value_) || (number != nullptr && *number >= 0);
}
bool Json::is_string() const noexcept {
  return std::holds_alternative<std::string>(value_);
}
bool Json::is_array() const noexcept {
  return std::holds_alternative<std::vector<Json>>(value_);
}
bool Json::is_object() const noexcept {
  return std::holds_alternative<std::vector<JsonMember>>(value_);
}

size_t Json::size() const noexcept {
  if (is_object()) return members().size();
  return static_cast<size_t>(end() - begin());
}

const Json* Json::begin() const noexcept {
  const auto* items = std::get_if<std::vector<Json>>(&value_);
  return items == nullptr ? nullptr : items->data();
}
const Json* Json::end() const noexcept {
  const auto* items = std::get_if<std::vector<Json>>(&value_);
  return items == nullptr ? nullptr : items->data() + items->size();
}

const std::vector<JsonMember>& Json::members() const noexcept {
  static const std::vector<JsonMember> none;
  const auto* members = std::get_if<std::vector<JsonMember>>(&value_);
  return members == nullptr ? none : *members;
}

const Json* Json::find(std::string_view name) const noexcept {
  for (const JsonMember& member : members())
    if (member.name == name) return &member.value;
  return nullptr;
}

const Json& Json::at(std::string_view name) const {
  const Json* found = find(name);
  if (found == nullptr) throw JsonError("there is no '" + std::string(name) + "'");
  return *found;
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) value_ = std::vector<JsonMember>();
  if (!is_object()) wrong_type("an object");
  auto& members = std::get<std::vector<JsonMember>>(value_);
  for (JsonMember& member : members)
    if (member.name == name) return member.value;
  members.push_back({std::string(name), Json()});
  return members.back().value;
}

const Json& Json::operator[](size_t at) const {
  return items()[at];
}

void Json::push_back(Json item) {
  if (is_null()) value_ = std::vector<Json>();
  if (!is_array()) wrong_type("an array");
  std::get<std::vector<Json>>(value_).push_back(std::move(item));
}

void Json::push_back(std::string name, Json value) {
  if (is_null()) value_ = std::vector<JsonMember>();
  if (!is_object()) wrong_type("an object");
  std::get<std::vector<JsonMember>>(value_).push_back({std::move(name), std::move(value)});
}

const std::string& Json::text() const {
  if (!is_string()) wrong_type("a text");
  return std::get<std::string>(value_);
}

void Json::read(bool* value) const {
  if (!is_boolean()) wrong_type("true or false");
  *value = std::get<bool>(value_);
}
void Json::read(std::string* value) const {
  *value = text();
}
void Json::read(double* value) const {
  if (!is_number()) wrong_type("a number");
  if (const auto* number = std::get_if<int64_t>(&value_))
    *value = static_cast<double>(*number);
  else if (const auto* large = std::get_if<uint64_t>(&value_))
    *value = static_cast<double>(*large);
  else
    *value = std::get<double>(value_);
}

int64_t Json::integer() const {
  if (!is_number()) wrong_type("a number");
  if (const auto* large = std::get_if<uint64_t>(&value_)) return static_cast<int64_t>(*large);
  if (const auto* real = std::get_if<double>(&value_)) {
    if (!(*real > -9e18 && *real < 9e18)) wrong_type("a whole number");
    return static_cast<int64_t>(*real);
  }
  return std::get<int64_t>(value_);
}

const std::vector<Json>& Json::items() const {
  if (!is_array()) wrong_type("an array");
  return std::get<std::vector<Json>>(value_);
}

const std::vector<JsonMember>& Json::named() const {
  if (!is_object()) wrong_type("an object");
  return members();
}

}  // namespace dl
