// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/json_mutator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/format/manifest_json.h"
#include "common/base/parse.h"
#include "tests/fuzz/random.h"

namespace dl::ckpt::fuzz {
namespace {

constexpr int kMaxDepth = 16;

// A value [at, end) of a JSON text. A member of an object begins with its name, at `from`; else `from` is `at`.
struct Value {
  size_t from, at, end;
  size_t parent;  // index; the outermost value's is its own
};

// Finds the values of a text in the order in which they begin. What it takes for a number, true, false or null may be
// any word.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // None: the text is not JSON, or nests too deep.
  std::vector<Value> values() && {
    if (!value(0, std::string_view::npos, 0) || next() != '\0' || at_ < text_.size()) values_.clear();
    return std::move(values_);
  }

 private:
  // The next character that is not blank; 0 at the end.
  char next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  bool string() {
    if (!take('"')) return false;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        return true;
      }
      if (text_[at_] == '\\') ++at_;
    }
    return false;
  }
  bool word() {
    const size_t begin = at_;
    const auto part_of_word = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
             c == '.';
    };
    while (at_ < text_.size() && part_of_word(text_[at_])) ++at_;
    return at_ > begin;
  }
  bool container(size_t self, char open, int depth) {
    const char close = open == '{' ? '}' : ']';
    ++at_;
    if (take(close)) return true;
    do {
      size_t name = std::string_view::npos;
      if (open == '{') {
        next();
        name = at_;
        if (!string() || !take(':')) return false;
      }
      if (!value(self, name, depth + 1)) return false;
    } while (take(','));
    return take(close);
  }
  bool value(size_t parent, size_t name, int depth) {
    if (depth > kMaxDepth) return false;
    const char first = next();
    const size_t self = values_.size();
    values_.push_back({name == std::string_view::npos ? at_ : name, at_, at_, parent});
    const bool good = first == '{' || first == '[' ? container(self, first, depth) : first == '"' ? string() : word();
    values_[self].end = at_;
    return good;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Value> values_;
};

// One change: [at, end) of the text becomes `with`.
struct Change {
  size_t at, end;
  std::string with;
};

class Changer {
 public:
  Changer(std::string_view text, const std::vector<Value>& values, Random* random)
      : text_(text), values_(values), random_(*random) {}

  Change change() {
    const size_t index = random_.below(values_.size());
    const Value& value = values_[index];
    const char first = text_[value.at];
    if (value.from < value.at && random_.below(12) == 0) return name(value);
    if (first == '{' || first == '[') {
      // The outermost value stays what it is, so that no input shrinks to a mere number.
      if (index == 0 || random_.below(4) != 0) return among(index, first == '{');
    } else if (random_.below(8) != 0) {
      if (first == '"') return string(value);
      if (first == 't' || first == 'f') return {value.at, value.end, first == 't' ? "false" : "true"};
      if (first == '-' || (first >= '0' && first <= '9')) return {value.at, value.end, near(value)};
    }
    if (index == 0) return {value.at, value.end, near(value)};
    return {value.at, value.end, anything()};
  }

 private:
  std::string with_name(const Value& value) const {
    return std::string(text_.substr(value.from, value.end - value.from));
  }
  std::string without_name(const Value& value) const {
    return std::string(text_.substr(value.at, value.end - value.at));
  }
  const Value& any() { return values_[random_.below(values_.size())]; }

  std::string number() {
    static constexpr const char* kInteresting[] = {"0",
                                                   "1",
                                                   "-1",
                                                   "2",
                                                   "31",
                                                   "32",
                                                   "33",
                                                   "4095",
                                                   "4096",
                                                   "4097",
                                                   "65535",
                                                   "65536",
                                                   "2147483647",
                                                   "-2147483648",
                                                   "4294967296",
                                                   "9223372036854775807",
                                                   "-9223372036854775808",
                                                   "18446744073709551615",
                                                   "67108864",
                                                   "1152921504606846976",
                                                   "1152921504606846977",
                                                   "999999999999",
                                                   "1000000000000",
                                                   "100000",
                                                   "99999",
                                                   "-0",
                                                   "0.5",
                                                   "1e18",
                                                   "1e400"};
    switch (random_.below(3)) {
      case 0:
        return random_.one_of(kInteresting);
      case 1:
        return std::to_string(static_cast<uint64_t>(random_()) << 32 | random_());
      default:
        return std::to_string(random_.below(70000));
    }
  }
  // A number one or two away, or any.
  std::string near(const Value& value) {
    const auto is = parse_int(text_.substr(value.at, value.end - value.at), INT64_MIN, INT64_MAX);
    if (!is || random_.below(2) == 0) return number();
    return std::to_string(static_cast<int64_t>(static_cast<uint64_t>(*is) + random_.below(5) - 2));
  }
  // The name of a member becomes that of another, or a similar one.
  Change name(const Value& value) {
    const size_t end = name_end(value);
    if (const Value& other = any(); other.from < other.at && random_.below(2) == 0)
      return {value.from, end, std::string(text_.substr(other.from, name_end(other) - other.from))};
    return string({value.from, value.from, end, value.parent});
  }
  size_t name_end(const Value& value) const { return text_.rfind('"', value.at - 1) + 1; }
  Change string(const Value& value) {
    static constexpr const char* kPieces[] = {"/", "..", "%", "=", "\\u0000", "\\ud800", "\\\\", "\xc3\xa9", "\xc3"};
    std::string inner(text_.substr(value.at + 1, value.end - value.at - 2));
    // An escape sequence is not cut in two: behind one, changes are made at the end.
    const bool escaped = inner.find('\\') != std::string::npos;
    const size_t spot = escaped || inner.empty() ? inner.size() : random_.below(inner.size());
    switch (random_.below(5)) {
      case 0: {
        const char c = static_cast<char>(random_.below(95) + 32);
        inner.replace(spot, 1, c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c});
        break;
      }
      case 1:
        inner.insert(spot, random_.one_of(kPieces));
        break;
      case 2:
        if (spot < inner.size()) inner.erase(spot, 1);
        break;
      case 3:
        inner += inner;
        break;
      default:
        if (const Value& other = any(); text_[other.at] == '"') return {value.at, value.end, without_name(other)};
        inner.clear();
    }
    return {value.at, value.end, '"' + inner + '"'};
  }
  // Removes, doubles or swaps items of an array or members of an object, or adds a copy from elsewhere.
  Change among(size_t index, bool object) {
    std::vector<size_t> items;
    for (size_t i = index + 1; i < values_.size() && values_[i].from < values_[index].end; ++i)
      if (values_[i].parent == index) items.push_back(i);
    if (items.empty()) {
      const size_t inside = values_[index].at + 1;
      return {inside, inside, copy(object)};
    }
    const size_t which = random_.below(items.size());
    const Value& item = values_[items[which]];
    switch (random_.below(4)) {
      case 0:
        if (which > 0) return {values_[items[which - 1]].end, item.end, ""};
        return {item.from, which + 1 < items.size() ? values_[items[which + 1]].from : item.end, ""};
      case 1:
        return {item.end, item.end, ',' + with_name(item)};
      case 2: {
        const size_t other = random_.below(items.size());
        if (other == which) return {item.end, item.end, ""};
        const Value& a = values_[items[std::min(which, other)]];
        const Value& b = values_[items[std::max(which, other)]];
        return {a.from, b.end, with_name(b) + std::string(text_.substr(a.end, b.from - a.end)) + with_name(a)};
      }
      default: {
        const std::string added = copy(object);
        return {item.end, item.end, added.empty() ? added : ',' + added};
      }
    }
  }
  // Of a random value of the text; for an object of a member, if one is found.
  std::string copy(bool object) {
    for (int tries = 0; tries < 4; ++tries) {
      const Value& value = any();
      if (!object) return without_name(value);
      if (value.from < value.at) return with_name(value);
    }
    return "";
  }
  std::string anything() {
    switch (random_.below(6)) {
      case 0:
        return "null";
      case 1:
        return "[]";
      case 2:
        return "{}";
      case 3:
        return number();
      default:
        return without_name(any());
    }
  }

  std::string_view text_;
  const std::vector<Value>& values_;
  Random& random_;
};

void put_checksum(std::string* text) {
  constexpr size_t kTail = kHashHexDigits + 5;  // quote, newline, brace, newline
  if (text->size() < kTail) return;
  const size_t at = text->size() - kTail + 1;
  text->replace(at, kHashHexDigits, kHashHexDigits, '0');
  text->replace(at, kHashHexDigits, to_hex(hash_bytes(text->data(), text->size())));
}

std::vector<std::string> parts_of(const std::string& text, const Parts& how) {
  std::vector<std::string> parts = split(text, how.end);
  if (parts.empty()) parts.emplace_back();
  return parts;
}

std::string joined(const std::vector<std::string>& parts, const Parts& how) {
  return join(parts, std::string_view(&how.end, 1));
}

}  // namespace

std::optional<std::string> mutate_json(std::string text, uint32_t seed, size_t max_size) {
  Random random(seed);
  bool changed = false;
  for (size_t i = 0; i <= random.below(4); ++i) {
    const std::vector<Value> values = Scanner(text).values();
    if (values.empty()) break;
    const Change change = Changer(text, values, &random).change();
    if (text.size() - (change.end - change.at) + change.with.size() > max_size) break;
    text.replace(change.at, change.end - change.at, change.with);
    changed = true;
  }
  if (!changed) return std::nullopt;
  return text;
}

std::optional<std::string> mutate_parts(const std::string& text, const Parts& how, uint32_t seed, size_t max_size) {
  Random random(seed);
  std::vector<std::string> parts = parts_of(text, how);
  std::string& part = parts[random.below(parts.size())];
  switch (random.below(8)) {
    case 0: {
      const std::string again = part;
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(random.below(parts.size() + 1)), again);
      break;
    }
    case 1:
      std::swap(part, parts[random.below(parts.size())]);
      break;
    case 2:
      if (parts.size() > 1) parts.erase(parts.begin() + (&part - parts.data()));
      break;
    case 3:
      // The head of another part; a digit gets another one.
      if (how.head > 0 && part.size() >= how.head) {
        const std::string& other = parts[random.below(parts.size())];
        if (other.size() >= how.head) part.replace(0, how.head, other, 0, how.head);
        char& last = part[how.head - 1];
        if (last >= '0' && last <= '9') last = static_cast<char>('0' + random.below(8));
        break;
      }
      [[fallthrough]];
    default: {
      if (part.size() <= how.head) return std::nullopt;
      auto changed = mutate_json(part.substr(how.head), random(), max_size);
      if (!changed) return std::nullopt;
      part.replace(how.head, std::string::npos, *changed);
    }
  }
  std::string all = joined(parts, how);
  if (all.size() > max_size) return std::nullopt;
  return all;
}

std::optional<std::string> cross_parts(const std::string& text, const std::string& other, const Parts& how,
                                       uint32_t seed, size_t max_size) {
  Random random(seed);
  std::vector<std::string> parts = parts_of(text, how);
  const std::vector<std::string> others = parts_of(other, how);
  const std::string& added = others[random.below(others.size())];
  const size_t at = random.below(parts.size());
  if (random.below(2) == 0)
    parts[at] = added;
  else
    parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), added);
  std::string all = joined(parts, how);
  if (all.size() > max_size) return std::nullopt;
  return all;
}

std::string mutate_character(std::string text, uint32_t seed) {
  Random random(seed);
  for (int tries = 0; tries < 20 && !text.empty(); ++tries) {
    char& c = text[random.below(text.size())];
    if (c >= '0' && c <= '9') {
      c = static_cast<char>('0' + random.below(10));
      break;
    }
    if ((c >= 'a' && c <= 'z') || c == ',' || c == '[' || c == ']') {
      c = "/.,[]x%-0\"\\e"[random.below(12)];
      break;
    }
  }
  put_checksum(&text);
  return text;
}

std::string seal_manifest(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return text;
  json.erase("checksum");
  if (json.contains("files") && json["files"].is_array())
    for (nlohmann::json& file : json["files"])
      if (auto record =
              file_from_json(Json::parse(file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))))
        file["root"] = to_hex(table_root(record->blocks));
  std::string sealed = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  sealed.pop_back();
  sealed += ",\"checksum\": \"" + std::string(kHashHexDigits, '0') + "\"\n}\n";
  put_checksum(&sealed);
  return sealed;
}

}  // namespace dl::ckpt::fuzz
