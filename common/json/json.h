// SPDX-License-Identifier: Apache-2.0
// A JSON value. nlohmann-json reads and writes the text, but only two source files include it: its header adds seconds
// to each file's compilation.
//
//   Json job = {{"id", 12}, {"nodes", {"n1", "n2"}}};
//   job["state"] = "PENDING";
//   std::puts(job.dump(2).c_str());
//
// A list in braces becomes an object if all its items are pairs that begin with a text, else an array.
// Objects keep the order in which members were added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace dl {

// Thrown by at(), get() and value(): a member is missing, or a value has another type.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct JsonMember;

class Json {
 public:
  Json() noexcept;  // null
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  // NOLINTBEGIN(google-explicit-constructor): plain values convert to Json implicitly.
  Json(std::nullptr_t) noexcept;
  Json(int value) noexcept;
  Json(long value) noexcept;
  Json(long long value) noexcept;
  Json(unsigned value) noexcept;
  Json(unsigned long value) noexcept;
  Json(unsigned long long value) noexcept;
  Json(double value) noexcept;
  Json(const char* text);
  Json(std::string text);
  // A template, so that pointers do not convert to bool.
  template <typename Bool, typename = std::enable_if_t<std::is_same_v<Bool, bool>>>
  Json(Bool value) noexcept : value_(value) {}
  template <typename T>
  Json(const std::vector<T>& items) : Json(array()) {
    for (const T& item : items) push_back(Json(item));
  }
  template <typename T>
  Json(const std::set<T>& items) : Json(array()) {
    for (const T& item : items) push_back(Json(item));
  }
  template <typename T>
  Json(const std::map<std::string, T>& members) : Json(object()) {
    for (const auto& [name, value] : members) push_back(name, Json(value));
  }
  Json(std::initializer_list<Json> items);
  // NOLINTEND(google-explicit-constructor)
  static Json array();
  static Json object();

  // Parses UTF-8 text. Text that is not JSON, or nests deeper than 200, gives a value for which only is_broken() is
  // true. Of several members with the same name the last counts.
  static Json parse(std::string_view text);
  // The same for text of strangers: nested deeper than `max_depth`, or with two members of one name, it is broken too.
  static Json parse_strictly(std::string_view text, size_t max_depth);
  // As text, indented by `indent` spaces a level, or on one line if it is negative. Bytes that are not UTF-8 become
  // U+FFFD; infinities and NaN become null.
  std::string dump(int indent = -1) const;
  // The same, with the members of objects sorted by name.
  std::string dump_sorted(int indent = -1) const;
  // As text on one line, with all characters outside ASCII as \uXXXX.
  std::string dump_ascii() const;

  bool is_broken() const noexcept;
  bool is_null() const noexcept;
  bool is_boolean() const noexcept;
  bool is_number() const noexcept;
  bool is_number_integer() const noexcept;   // without a point or an exponent
  bool is_number_unsigned() const noexcept;  // an integer that is not negative
  bool is_string() const noexcept;
  bool is_array() const noexcept;
  bool is_object() const noexcept;

  // The number of items of an array or of members of an object; 0 for anything else.
  size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  // The items of an array; an empty range for anything else.
  const Json* begin() const noexcept;
  const Json* end() const noexcept;
  // The members of an object; empty for anything else.
  const std::vector<JsonMember>& members() const noexcept;

  // The member's value; nullptr if this is not an object or has no such member.
  const Json* find(std::string_view name) const noexcept;
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }
  const Json& at(std::string_view name) const;
  // The member's value. A missing member is added as null; if this value is null, it becomes an object first.
  Json& operator[](std::string_view name);
  Json& operator[](const char* name) { return (*this)[std::string_view(name)]; }
  // Precondition: at < size() of an array.
  const Json& operator[](size_t at) const;
  const Json& operator[](int at) const { return (*this)[static_cast<size_t>(at)]; }
  // Appends to an array; null becomes an array.
  void push_back(Json item);
  // Appends a member to an object, which must not have one of this name; null becomes an object.
  void push_back(std::string name, Json value);

  // T is bool, std::string, a number, or a std::vector or std::map<std::string, ...> of these.
  template <typename T>
  T get() const {
    T value{};
    read(&value);
    return value;
  }
  // The text of a string.
  const std::string& text() const;
  // The member's value, or `otherwise` if there is no such member.
  template <typename T>
  T value(std::string_view name, T otherwise) const {
    const Json* member = find(name);
    return member == nullptr ? otherwise : member->get<T>();
  }

 private:
  struct Broken {};
  friend struct JsonReader;
  friend struct JsonWriter;
  void read(bool* value) const;
  void read(std::string* value) const;
  void read(double* value) const;
  void read(Json* value) const { *value = *this; }
  template <typename T>
  std::enable_if_t<std::is_integral_v<T>> read(T* value) const {
    *value = static_cast<T>(integer());
  }
  template <typename T>
  void read(std::vector<T>* value) const {
    for (const Json& item : items()) value->push_back(item.get<T>());
  }
  template <typename T>
  void read(std::map<std::string, T>* value) const;
  // Keeps one member for each name: the last value, at the place of the first. True if there was more than one of a
  // name.
  static bool keep_last(std::vector<JsonMember>* members);
  // The value of any number as int64_t; a large unsigned one wraps.
  int64_t integer() const;
  const std::vector<Json>& items() const;
  const std::vector<JsonMember>& named() const;

  std::variant<std::nullptr_t, Broken, bool, int64_t, uint64_t, double, std::string, std::vector<Json>,
               std::vector<JsonMember>>
      value_;
};

struct JsonMember {
  std::string name;
  Json value;
};

template <typename T>
void Json::read(std::map<std::string, T>* value) const {
  for (const JsonMember& member : named()) (*value)[member.name] = member.value.get<T>();
}

}  // namespace dl
