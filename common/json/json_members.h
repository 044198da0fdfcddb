// SPDX-License-Identifier: Apache-2.0
// Converts structures to JSON objects and back. One function beside a structure names its members, for both directions:
//
//   void members(Reply& m, JsonMembers& each) { each("ok", m.ok)("text", m.text); }
//
// json_of(reply) then makes the object, and read_json(json, &reply) reads it: members that are missing in the JSON keep
// their value, and unknown ones are ignored. Members may be numbers, texts, structures that have a members() function,
// and vectors and maps of these; other types need to_json(value) and from_json(json, &value) in their namespace.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "common/json/json.h"

namespace dl {

class JsonMembers;
template <typename T>
Json json_of(const T& value);
// Throws JsonError if a value has another type.
template <typename T>
void read_json(const Json& json, T* value);

class JsonMembers {
 public:
  explicit JsonMembers(const Json* from) : from_(from) {}
  explicit JsonMembers(Json* to) : to_(to) {}

  template <typename T>
  JsonMembers& operator()(const char* name, T& value) {
    if (to_ != nullptr) {
      to_->push_back(name, json_of(value));
    } else if (const Json* member = from_->find(name)) {
      read_json(*member, &value);
    }
    return *this;
  }

 private:
  const Json* from_ = nullptr;
  Json* to_ = nullptr;
};

namespace json_detail {

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename T>
struct IsMap<std::map<std::string, T>> : std::true_type {};
template <typename T, typename = void>
struct HasMembers : std::false_type {};
template <typename T>
struct HasMembers<T, std::void_t<decltype(members(std::declval<T&>(), std::declval<JsonMembers&>()))>>
    : std::true_type {};

}  // namespace json_detail

template <typename T>
Json json_of(const T& value) {
  if constexpr (json_detail::HasMembers<T>::value) {
    Json object = Json::object();
    JsonMembers each(&object);
    members(const_cast<T&>(value), each);  // members() only reads in this direction
    return object;
  } else if constexpr (json_detail::IsVector<T>::value) {
    Json array = Json::array();
    for (const auto& item : value) array.push_back(json_of(item));
    return array;
  } else if constexpr (json_detail::IsMap<T>::value) {
    Json object = Json::object();
    for (const auto& [name, item] : value) object.push_back(name, json_of(item));
    return object;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return Json(value);
  } else {
    return to_json(value);
  }
}

template <typename T>
void read_json(const Json& json, T* value) {
  if constexpr (json_detail::HasMembers<T>::value) {
    if (!json.is_object()) throw JsonError("a value is not an object");
    JsonMembers each(&json);
    members(*value, each);
  } else if constexpr (json_detail::IsVector<T>::value) {
    if (!json.is_array()) throw JsonError("a value is not an array");
    value->clear();
    for (const Json& item : json) read_json(item, &value->emplace_back());
  } else if constexpr (json_detail::IsMap<T>::value) {
    if (!json.is_object()) throw JsonError("a value is not an object");
    value->clear();
    for (const JsonMember& member : json.members()) read_json(member.value, &(*value)[member.name]);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    *value = json.get<T>();
  } else {
    from_json(json, value);
  }
}

}  // namespace dl
