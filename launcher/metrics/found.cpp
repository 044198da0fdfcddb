// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/found.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace dl::metrics {
namespace {

constexpr size_t kLongestNumber = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool begins_with(std::string_view text, std::string_view word) {
  if (text.size() < word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i)
    if (lower(text[i]) != word[i]) return false;
  return true;
}

bool ends_word(std::string_view text, size_t at) {
  if (at >= text.size()) return true;
  const char c = lower(text[at]);
  return !(c >= 'a' && c <= 'z') && !is_digit(c) && c != '_';
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

std::string_view group_of_word(std::string_view word) {
  struct Word {
    std::string_view word, group;
  };
  constexpr Word kWords[] = {{"val", kValidate},      {"valid", kValidate}, {"validation", kValidate},
                             {"validate", kValidate}, {"eval", kValidate},  {"evaluation", kValidate},
                             {"dev", kValidate},      {"test", kTest},      {"testing", kTest},
                             {"train", kTrain},       {"training", kTrain}};
  for (const Word& one : kWords)
    if (word == one.word) return one.group;
  return {};
}

double number_at(std::string_view text, size_t* bytes) {
  *bytes = 0;
  text = text.substr(0, kLongestNumber);
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const bool minus = sign == 1 && text[0] == '-';
  const std::string_view rest = text.substr(sign);
  for (const std::string_view word : {"infinity", "inf", "nan"}) {
    if (!begins_with(rest, word) || !ends_word(rest, word.size())) continue;
    *bytes = sign + word.size();
    const double value =
        word == "nan" ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    return minus ? -value : value;
  }
  if (rest.empty() || (!is_digit(rest[0]) && !(rest[0] == '.' && rest.size() > 1 && is_digit(rest[1])))) return 0;
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error == std::errc::invalid_argument) return 0;
  *bytes = sign + static_cast<size_t>(end - rest.data());
  // Beyond what a double holds, as it would be rounded. So short a text is too small only by its exponent.
  if (error == std::errc::result_out_of_range) {
    const std::string_view number = rest.substr(0, *bytes - sign);
    const size_t exponent = number.find_first_of("eE");
    const bool small = exponent != std::string_view::npos && number[exponent + 1] == '-';
    value = small ? 0 : std::numeric_limits<double>::infinity();
  }
  return minus ? -value : value;
}

}  // namespace dl::metrics
