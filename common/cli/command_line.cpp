// SPDX-License-Identifier: Apache-2.0
#include "common/cli/command_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/parse.h"

namespace dl {
namespace {

std::string quoted(const std::string& word) {
  return "'" + printable(word) + "'";
}

// A limit as people write it: without a decimal point if it is a whole number.
std::string number_text(long double number) {
  const auto whole = static_cast<int64_t>(number);
  return static_cast<long double>(whole) == number ? fmt::format("{}", whole)
                                                   : fmt::format("{:g}", static_cast<double>(number));
}

Error not_allowed(const std::string& name, const std::string& text, const std::string& allowed) {
  return Error{Errc::kInvalid, fmt::format("{}: {} is not allowed; allowed: {}", name, quoted(text), allowed)};
}

using Limits = std::optional<std::pair<long double, long double>>;

std::string limits_text(const Limits& limits, const char* what) {
  if (!limits) return what;
  if (limits->second > 1e18L) return fmt::format("{} from {} on", what, number_text(limits->first));
  return fmt::format("{} from {} to {}", what, number_text(limits->first), number_text(limits->second));
}

template <typename T>
Status set_number(const std::string& name, const std::string& text, const Limits& limits, T* value) {
  if constexpr (std::is_floating_point_v<T>) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    // strtod() also accepts leading blanks, hexadecimal digits, "inf" and "nan"; we do not.
    const bool good = !text.empty() && *end == '\0' && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
    if (!good || (limits && (number < limits->first || number > limits->second)))
      return not_allowed(name, text, limits_text(limits, "a number"));
    *value = number;
  } else {
    using Number = std::conditional_t<std::is_unsigned_v<T>, unsigned long long, long long>;
    errno = 0;
    char* end = nullptr;
    Number number = 0;
    bool good = !text.empty() && text[0] >= '0' && text[0] <= '9';
    if constexpr (std::is_unsigned_v<T>) {  // strtoull() accepts a minus sign, we do not
      number = std::strtoull(text.c_str(), &end, 10);
    } else {
      good = good || (!text.empty() && text[0] == '-');
      number = std::strtoll(text.c_str(), &end, 10);
    }
    good = good && *end == '\0' && errno == 0;
    if constexpr (sizeof(T) < sizeof(number))
      good = good && number >= std::numeric_limits<T>::min() && number <= std::numeric_limits<T>::max();
    if (!good || (limits && (number < limits->first || number > limits->second)))
      return not_allowed(name, text, limits_text(limits, "a whole number"));
    *value = static_cast<T>(number);
  }
  return {};
}

// Parses the text and stores it in the variable that the variant's pointer names.
struct Setter {
  const std::string& name;
  const std::string& text;
  const Limits& limits;

  Status operator()(bool* value) const {
    *value = true;
    return {};
  }
  Status operator()(std::string* value) const {
    *value = text;
    return {};
  }
  Status operator()(std::optional<std::string>* value) const {
    *value = text;
    return {};
  }
  Status operator()(std::vector<std::string>* value) const {
    value->push_back(text);
    return {};
  }
  template <typename T>
  Status operator()(std::optional<T>* value) const {
    T number = 0;
    DL_TRY(set_number(name, text, limits, &number));
    *value = number;
    return {};
  }
  template <typename T>
  Status operator()(T* value) const {
    return set_number(name, text, limits, value);
  }
};

std::string default_text(const CommandValue& value) {
  if (const auto* text = std::get_if<std::string*>(&value)) return **text;
  if (const auto* number = std::get_if<int*>(&value)) return fmt::format("{}", **number);
  if (const auto* number = std::get_if<int64_t*>(&value)) return fmt::format("{}", **number);
  if (const auto* number = std::get_if<uint64_t*>(&value)) return fmt::format("{}", **number);
  if (const auto* number = std::get_if<double*>(&value)) return fmt::format("{:g}", **number);
  return "";
}

std::string default_form(const CommandValue& value) {
  const bool is_text = std::holds_alternative<std::string*>(value) ||
                       std::holds_alternative<std::optional<std::string>*>(value) ||
                       std::holds_alternative<std::vector<std::string>*>(value);
  return is_text ? "TEXT" : "N";
}

// Whether the word after the one at `at` can be its value. Only "--" cannot: it begins the arguments.
bool has_value(const std::vector<std::string>& words, size_t at) {
  return at + 1 < words.size() && words[at + 1] != "--";
}

}  // namespace

CommandRow::CommandRow(const std::string& names, CommandValue value, std::string help)
    : names_(split(names, ',')), value_(value), help_(std::move(help)), form_(default_form(value)) {}

CommandRow& CommandRow::required() {
  required_ = true;
  return *this;
}
CommandRow& CommandRow::form(std::string form) {
  form_ = std::move(form);
  return *this;
}
CommandRow& CommandRow::shows_default() {
  default_ = default_text(value_);
  return *this;
}
CommandRow& CommandRow::between(long double low, long double high) {
  limits_ = {low, high};
  return *this;
}
CommandRow& CommandRow::among(std::vector<std::string> allowed) {
  allowed_ = std::move(allowed);
  return *this;
}
CommandRow& CommandRow::needs(std::string name) {
  needs_ = std::move(name);
  return *this;
}
CommandRow& CommandRow::excludes(std::string name) {
  excludes_ = std::move(name);
  return *this;
}
CommandRow& CommandRow::marks(bool* given) {
  marks_ = given;
  return *this;
}
CommandRow& CommandRow::heading(std::string heading) {
  heading_ = std::move(heading);
  return *this;
}
CommandRow& CommandRow::hidden() {
  hidden_ = true;
  return *this;
}

CommandLine::CommandLine(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {
  flag("-h,--help", &help_, "Print this and exit");
}

CommandRow& CommandLine::option(const std::string& names, CommandValue value, std::string help) {
  return *options_.emplace_back(std::make_unique<CommandRow>(names, value, std::move(help)));
}

CommandRow& CommandLine::flag(const std::string& names, bool* value, std::string help) {
  return option(names, value, std::move(help));
}

CommandRow& CommandLine::argument(const std::string& name, CommandValue value, std::string help) {
  return *arguments_.emplace_back(std::make_unique<CommandRow>(name, value, std::move(help)));
}

CommandRow& CommandLine::rest(const std::string& name, std::vector<std::string>* words, std::string help) {
  CommandRow& row = argument(name, words, std::move(help));
  row.takes_rest_ = true;
  return row;
}

void CommandLine::version(const std::string& names, std::string text) {
  version_ = std::move(text);
  flag(names, &version_asked_, "Print the version and exit");
}

void CommandLine::footer(std::string text) {
  footer_ = std::move(text);
}

void CommandLine::instead_of(std::vector<std::string> words, std::string instead) {
  instead_.emplace_back(std::move(words), std::move(instead));
}

// "; " and what is typed here instead of the word; empty if nothing is known of it.
std::string CommandLine::instead(std::string word) const {
  word.resize(std::min(word.find('='), word.size()));
  std::replace(word.begin(), word.end(), '_', '-');
  for (const auto& [words, text] : instead_)
    if (std::find(words.begin(), words.end(), word) != words.end()) return "; " + text;
  return {};
}

void CommandLine::exactly_one_of(std::vector<std::string> names) {
  exactly_one_.push_back(std::move(names));
}

CommandLine* CommandLine::subcommand(const std::string& name, std::string summary) {
  CommandLine* made = subcommands_.emplace_back(std::make_unique<CommandLine>(name, std::move(summary))).get();
  made->parent_ = this;
  return made;
}

void CommandLine::require_subcommand() {
  needs_subcommand_ = true;
}

Result<std::string> CommandLine::parse(int argc, const char* const* argv) {
  chosen_ = true;
  return parse_words(Words(argv, argv + argc), argc > 0 ? 1 : 0);
}

Result<std::string> CommandLine::parse_words(const Words& words, size_t at) {
  bool only_arguments = false;
  while (at < words.size()) {
    const std::string& word = words[at];
    const bool takes_rest = !arguments_.empty() && arguments_.front()->takes_rest_;
    if (!only_arguments && word == "--") {
      only_arguments = true;
      ++at;
    } else if (!only_arguments && word.size() > 1 && word[0] == '-') {
      DL_TRY_ASSIGN(at, word[1] == '-' ? take_option(words, at) : take_letters(words, at));
      if (help_) return CommandHelp::text(*this);
      if (version_asked_) return version_ + "\n";
    } else if (takes_rest) {
      for (; at < words.size(); ++at) DL_TRY(set(arguments_.front().get(), words[at]));
    } else {
      if (!only_arguments) {
        for (const auto& sub : subcommands_) {
          if (sub->name_ != word) continue;
          sub->chosen_ = true;
          DL_TRY_ASSIGN(std::string text, sub->parse_words(words, at + 1));
          if (text.empty()) DL_TRY(check());
          return text;
        }
      }
      DL_TRY(take_argument(word));
      ++at;
    }
  }
  DL_TRY(check());
  if (needs_subcommand_) return Error{Errc::kInvalid, "a subcommand is required: " + subcommand_names()};
  return std::string();
}

// Handles --name, --name VALUE and --name=VALUE. Returns the index of the next word.
Result<size_t> CommandLine::take_option(const Words& words, size_t at) {
  const std::string& word = words[at];
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  CommandRow* row = find(name);
  if (row == nullptr) return unknown(name);
  if (row->is_flag()) {
    if (equals != std::string::npos) return Error{Errc::kInvalid, name + " takes no value"};
    DL_TRY(set(row, ""));
    return at + 1;
  }
  if (equals != std::string::npos) {
    DL_TRY(set(row, word.substr(equals + 1)));
    return at + 1;
  }
  if (!has_value(words, at))
    return Error{Errc::kInvalid, fmt::format("{} needs a value: {} {}", name, name, row->form_)};
  DL_TRY(set(row, words[at + 1]));
  return at + 2;
}

// Handles -n VALUE, -nVALUE, and several flags in one word. Returns the index of the next word.
Result<size_t> CommandLine::take_letters(const Words& words, size_t at) {
  const std::string& word = words[at];
  for (size_t i = 1; i < word.size(); ++i) {
    const std::string name = std::string("-") + word[i];
    CommandRow* row = find(name);
    if (row == nullptr) return unknown(i == 1 ? word : name);
    if (row->is_flag()) {
      DL_TRY(set(row, ""));
      continue;
    }
    if (i + 1 < word.size()) {
      DL_TRY(set(row, word.substr(i + 1)));
      return at + 1;
    }
    if (!has_value(words, at))
      return Error{Errc::kInvalid, fmt::format("{} needs a value: {} {}", name, name, row->form_)};
    DL_TRY(set(row, words[at + 1]));
    return at + 2;
  }
  return at + 1;
}

Status CommandLine::take_argument(const std::string& word) {
  for (const auto& row : arguments_)
    if (!row->given_ || row->is_list()) return set(row.get(), word);
  std::vector<std::string> names;
  for (const auto& sub : subcommands_) names.push_back(sub->name_);
  const std::string guess = did_you_mean(word, names);
  if (const std::string other = instead(word); !other.empty())
    return Error{Errc::kInvalid, fmt::format("{} is no subcommand of {}{}", quoted(word), full_name(), other)};
  if (!subcommands_.empty())
    return Error{
        Errc::kInvalid,
        fmt::format("{} is no subcommand of {}{} {}: {}", quoted(word), full_name(), guess.empty() ? ";" : guess,
                    needs_subcommand_ ? "a subcommand is required" : "allowed", subcommand_names())};
  return Error{Errc::kInvalid, fmt::format("{} is one argument too many", quoted(word))};
}

Status CommandLine::set(CommandRow* row, const std::string& text) {
  if (row->given_ && !row->is_flag() && !row->is_list())
    return Error{Errc::kConflict, row->name() + " is given twice; allowed: once"};
  if (!row->allowed_.empty()) {
    bool found = false;
    for (const std::string& allowed : row->allowed_) found = found || allowed == text;
    if (!found) return not_allowed(row->name(), text, join(row->allowed_, ", "));
  }
  row->given_ = true;
  if (row->marks_ != nullptr) *row->marks_ = true;
  return std::visit(Setter{row->name(), text, row->limits_}, row->value_);
}

// Checks the rules that concern several options, when all words have been read.
Status CommandLine::check() const {
  const auto given = [this](const std::string& name) {
    const CommandRow* row = find(name);
    return row != nullptr && row->given_;
  };
  for (const auto& names : exactly_one_) {
    std::string first;
    for (const std::string& name : names) {
      if (!given(name)) continue;
      if (!first.empty())
        return Error{Errc::kConflict, fmt::format("{} and {} exclude one another; allowed: one of them", first, name)};
      first = name;
    }
    if (first.empty())
      return Error{Errc::kInvalid,
                   fmt::format("one of {} is required; allowed: exactly one of them", join(names, ", "))};
  }
  for (const auto* rows : {&arguments_, &options_}) {
    for (const auto& row : *rows) {
      if (row->required_ && !row->given_) return Error{Errc::kInvalid, row->name() + " is required"};
      if (!row->given_) continue;
      if (!row->needs_.empty() && !given(row->needs_))
        return Error{Errc::kConflict,
                     fmt::format("{0} needs {1}; add {1}, or leave {0} out", row->name(), row->needs_)};
      if (!row->excludes_.empty() && given(row->excludes_))
        return Error{Errc::kConflict,
                     fmt::format("{} and {} exclude one another; allowed: one of them", row->name(), row->excludes_)};
    }
  }
  return {};
}

CommandRow* CommandLine::find(const std::string& name) const {
  for (const auto& row : options_)
    for (const std::string& known : row->names_)
      if (known == name) return row.get();
  return nullptr;
}

const CommandLine& CommandLine::innermost() const {
  for (const auto& sub : subcommands_)
    if (sub->chosen_) return sub->innermost();
  return *this;
}

std::string CommandLine::full_name() const {
  return parent_ == nullptr ? name_ : parent_->full_name() + " " + name_;
}

Error CommandLine::unknown(const std::string& word) const {
  std::vector<std::string> names;
  for (const auto& row : options_)
    for (const std::string& name : row->names_) names.push_back(name);
  std::string text = fmt::format("{} is no option of {}", quoted(word), full_name());
  if (const std::string other = instead(word); !other.empty()) return Error{Errc::kInvalid, text + other};
  const std::string guess = did_you_mean(std::string_view(word).substr(0, word.find('=')), names);
  if (!guess.empty()) return Error{Errc::kInvalid, text + guess};
  if (!arguments_.empty() && arguments_.front()->takes_rest_) text += "; a command of that name follows --";
  return Error{Errc::kInvalid, std::move(text)};
}

std::string CommandLine::subcommand_names() const {
  std::string names;
  for (const auto& sub : subcommands_) names += (names.empty() ? "" : ", ") + sub->name_;
  return names;
}

std::string CommandLine::complaint(const Error& error) const {
  const std::string name = innermost().full_name();
  return fmt::format("{}: {}\nTry '{} --help'.\n", name, error.text, name);
}

void CommandLine::run_action() const {
  const CommandLine& line = innermost();
  if (line.action_) line.action_();
}

}  // namespace dl
