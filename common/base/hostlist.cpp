// SPDX-License-Identifier: Apache-2.0
#include "common/base/hostlist.h"

#include <algorithm>
#include <cstdint>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr size_t kMaxText = 4UL << 20;
constexpr size_t kMaxName = 255;
constexpr size_t kMaxDigits = 9;  // digits of a number in brackets

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_char(char c) {
  return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '_' || c == '-';
}

Error fault(std::string_view item, const std::string& what) {
  return Error{Errc::kInvalid, "'" + printable(item) + "' " + what};
}

std::string padded(uint64_t value, size_t width) {
  std::string digits = std::to_string(value);
  return digits.size() >= width ? digits : std::string(width - digits.size(), '0') + digits;
}

bool only_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// Expands the text between two brackets: "1-3,07" -> "1","2","3","07". More than `room` names are an error.
Result<std::vector<std::string>> expand_brackets(std::string_view inside, size_t room, std::string_view item) {
  std::vector<std::string> texts;
  for (const std::string& part : split(inside, ',')) {
    const size_t dash = part.find('-');
    if (dash == std::string::npos) {
      if (part.empty() || !std::all_of(part.begin(), part.end(), is_name_char)) {
        return fault(item,
                     "has a part in its brackets that is neither a number nor a range; allowed: NUMBER or "
                     "NUMBER-NUMBER, as in node[1-3,7]");
      }
      texts.push_back(part);
    } else {
      const std::string low = part.substr(0, dash);
      const std::string high = part.substr(dash + 1);
      if (!only_digits(low) || !only_digits(high) || low.size() > kMaxDigits || high.size() > kMaxDigits) {
        return fault(item, "has a range in its brackets that is malformed; allowed: NUMBER-NUMBER, as in node[1-3,7]");
      }
      const uint64_t from = std::stoull(low);
      const uint64_t to = std::stoull(high);
      if (from > to)
        return fault(item,
                     "has a range in its brackets that falls; allowed: the smaller number first, as in node[1-3]");
      if (to - from >= room || texts.size() + (to - from) >= room)
        return fault(item, "names too many hosts; allowed: a shorter list");
      for (uint64_t n = from; n <= to; ++n) texts.push_back(padded(n, low.size()));
    }
    if (texts.size() > room) return fault(item, "names too many hosts; allowed: a shorter list");
  }
  if (texts.empty()) return fault(item, "has empty brackets; allowed: numbers and ranges, as in node[1-3,7]");
  return texts;
}

// Expands one item that has no comma outside brackets, such as "rack[0-1]-n[01-16]", and appends its names.
Status expand_item(std::string_view item, size_t max_hosts, std::vector<std::string>* names) {
  std::vector<std::string> heads{""};
  size_t at = 0;
  while (at < item.size()) {
    const size_t open = item.find('[', at);
    const std::string_view literal = item.substr(at, open == std::string_view::npos ? open : open - at);
    if (!std::all_of(literal.begin(), literal.end(), is_name_char)) {
      return fault(item, "is not a host name; allowed: A-Z a-z 0-9 . _ - and [1-3,7]");
    }
    for (std::string& head : heads) head += literal;
    if (open == std::string_view::npos) break;
    const size_t close = item.find(']', open);
    if (close == std::string_view::npos)
      return fault(item, "has a bracket that is not closed; allowed: brackets in pairs, as in node[1-3,7]");
    const size_t room = (max_hosts - names->size()) / heads.size();
    DL_TRY_ASSIGN(const std::vector<std::string> tails,
                  expand_brackets(item.substr(open + 1, close - open - 1), room, item));
    std::vector<std::string> product;
    product.reserve(heads.size() * tails.size());
    for (const std::string& head : heads) {
      for (const std::string& tail : tails) {
        if (head.size() + tail.size() > kMaxName)
          return fault(item, "names a host with more than 255 characters; allowed: up to 255");
        product.push_back(head + tail);
      }
    }
    heads = std::move(product);
    at = close + 1;
  }
  for (std::string& name : heads) {
    if (name.empty() || name.size() > kMaxName || !(is_name_char(name[0]) && name[0] != '-' && name[0] != '.')) {
      return fault(item, "is not a host name; allowed: 1 to 255 characters, the first a letter or digit");
    }
    if (names->size() >= max_hosts) return fault(item, "names too many hosts; allowed: a shorter list");
    names->push_back(std::move(name));
  }
  return {};
}

// A name cut at its last run of digits: "rack1-n07.x" -> "rack1-n", "07", ".x".
struct Cut {
  std::string head, digits, tail;
};
Cut cut_name(const std::string& name) {
  size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1]) && end - begin < kMaxDigits) --begin;
  return {name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text, size_t max_hosts) {
  if (text.size() > kMaxText)
    return Error{Errc::kInvalid, "the list of hosts is longer than 4 MiB; allowed: up to 4 MiB"};
  std::vector<std::string> names;
  if (text.empty()) return names;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1)
      return fault(text,
                   "has brackets that do not match; allowed: brackets in pairs, not one in another, as in node[1-3,7]");
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    if (i == start) return fault(text, "has an empty host name; allowed: names with one comma between two of them");
    DL_TRY(expand_item(text.substr(start, i - start), max_hosts, &names));
    start = i + 1;
  }
  return names;
}

std::string compress_hostlist(const std::vector<std::string>& names) {
  std::string text;
  size_t i = 0;
  while (i < names.size()) {
    const Cut first = cut_name(names[i]);
    // Collects the neighbours with this head and tail as ranges. A range ends where the width of the number changes.
    std::string ranges;
    size_t members = 0;
    while (i < names.size()) {
      const Cut low = cut_name(names[i]);
      if (low.digits.empty() || low.head != first.head || low.tail != first.tail) break;
      size_t j = i + 1;
      uint64_t last = std::stoull(low.digits);
      for (; j < names.size(); ++j) {
        const Cut next = cut_name(names[j]);
        if (next.head != first.head || next.tail != first.tail || next.digits != padded(last + 1, low.digits.size())) {
          break;
        }
        ++last;
      }
      ranges += (ranges.empty() ? "" : ",") + low.digits;
      if (j - i > 1) ranges += "-" + padded(last, low.digits.size());
      members += j - i;
      i = j;
    }
    if (!text.empty()) text += ',';
    if (members == 0) {
      text += names[i++];
    } else if (members == 1) {
      text += first.head + first.digits + first.tail;
    } else {
      text += first.head + "[" + ranges + "]" + first.tail;
    }
  }
  return text;
}

Result<std::vector<int>> expand_counts(std::string_view text, size_t count) {
  constexpr int64_t kMaxValue = 1000000;
  if (text.size() > kMaxText)
    return Error{Errc::kInvalid, "the list of counts is longer than 4 MiB; allowed: up to 4 MiB"};
  std::vector<int> counts;
  for (const std::string& part : split(text, ',')) {
    std::string_view number(part);
    int64_t times = 1;
    const size_t open = part.find("(x");
    if (open != std::string::npos && part.back() == ')') {
      DL_TRY_ASSIGN(times, parse_int(std::string_view(part).substr(open + 2, part.size() - open - 3), 1,
                                     static_cast<int64_t>(count)));
      number = number.substr(0, open);
    }
    DL_TRY_ASSIGN(const int64_t value, parse_int(number, 0, kMaxValue));
    if (counts.size() + static_cast<size_t>(times) > count) {
      return fault(text, "has too many counts; allowed: " + std::to_string(count) + ", one for each node");
    }
    counts.insert(counts.end(), static_cast<size_t>(times), static_cast<int>(value));
  }
  if (counts.size() != count)
    return fault(text, "has " + std::to_string(counts.size()) + " counts; allowed: " + std::to_string(count) +
                           ", one for each node");
  return counts;
}

}  // namespace dl
