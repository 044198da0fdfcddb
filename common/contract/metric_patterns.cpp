// SPDX-License-Identifier: Apache-2.0
#include "common/contract/metric_patterns.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr std::string_view kEvents = "events:";

struct Macro {
  std::string_view name, expression;
};

// The names are FfDL's.
constexpr std::array<Macro, 6> kMacros = {{
    {"FLOAT", R"([-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|nan|NaN|inf(?:inity)?|Inf))"},
    {"GLOG_STAMP", R"([IWEF][0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6})"},
    {"HEX", R"((?:0[xX])?[0-9a-fA-F]+)"},
    {"INT", R"([0-9]+)"},
    {"INT_ANY", R"([-+]?[0-9]+)"},
    {"TIMESTAMP",
     R"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[-+][0-9]{2}:?[0-9]{2})?)"},
}};

bool is_name(std::string_view text) {
  const auto word = [](unsigned char c) { return c < 0x80 && (std::isalnum(c) != 0 || c == '_'); };
  return !text.empty() && text.size() <= 32 && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), word);
}

bool has_controls(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// Whether the place says something of the value, and is none.
bool is_place(std::string_view name) {
  return name == "step" || name == "iteration" || name == "time" || name == "epoch";
}

// Whether a part has a name, "(?<name>" or "(?P<name>", that is a value.
bool names_a_value(std::string_view expression) {
  for (size_t at = expression.find("(?"); at != std::string_view::npos; at = expression.find("(?", at + 2)) {
    std::string_view rest = expression.substr(at + 2);
    if (!rest.empty() && rest[0] == 'P') rest.remove_prefix(1);
    if (rest.empty() || rest[0] != '<') continue;
    const std::string_view name = rest.substr(1, std::min(rest.find('>'), rest.size()) - 1);
    if (is_name(name) && !is_place(name)) return true;
  }
  return false;
}

}  // namespace

std::string macro_names() {
  std::string names;
  for (const Macro& macro : kMacros) names.append(names.empty() ? "%{" : ", %{").append(macro.name).append("}");
  return names;
}

Result<std::string> expand_pattern(std::string_view pattern) {
  const std::string_view typed = trim(pattern);
  const auto wrong = [&](const std::string& what) {
    return Error{Errc::kInvalid, "'" + printable(typed) + "' " + what};
  };
  if (typed.empty()) return wrong("is no expression; allowed: a regular expression such as loss=%{FLOAT:loss}");
  if (typed.size() > kLongestPattern)
    return wrong("is too long; allowed: up to " + std::to_string(kLongestPattern) + " characters");
  if (has_controls(typed)) return wrong("has control characters; allowed: \\t and the like");
  std::string expression;
  for (size_t at = 0; at < typed.size();) {
    const size_t begin = typed.find("%{", at);
    expression += typed.substr(at, begin - at);
    if (begin == std::string_view::npos) break;
    const size_t end = typed.find('}', begin);
    if (end == std::string_view::npos) return wrong("has a %{ without its }; allowed: " + macro_names());
    const std::string_view word = typed.substr(begin + 2, end - begin - 2);
    const std::string_view name = word.substr(0, word.find(':'));
    const auto macro = std::find_if(kMacros.begin(), kMacros.end(), [&](const Macro& one) { return one.name == name; });
    if (macro == kMacros.end())
      return Error{Errc::kInvalid,
                   "'" + printable(typed.substr(begin, end + 1 - begin)) + "' is no macro; allowed: " + macro_names()};
    if (name.size() == word.size()) {
      expression.append("(?:").append(macro->expression).append(")");
    } else {
      const std::string_view part = word.substr(name.size() + 1);
      if (!is_name(part))
        return wrong("has '" + printable(part) +
                     "' as a name; allowed: 1 to 32 letters, digits and _, the first of them no digit");
      expression.append("(?<").append(part).append(">").append(macro->expression).append(")");
    }
    at = end + 1;
  }
  if (!names_a_value(expression))
    return wrong("names no value; allowed: at least one part with a name, such as %{FLOAT:loss} or (?<loss>.*)");
  return expression;
}

std::string_view event_folder(std::string_view part) {
  if (part.substr(0, kEvents.size()) != kEvents || part.find("%{") != std::string_view::npos ||
      part.find("(?") != std::string_view::npos)
    return {};
  part.remove_prefix(kEvents.size());
  return part.size() > kLongestPattern || part.substr(0, 1) == " " || has_controls(part) ? std::string_view() : part;
}

Result<std::vector<std::string>> parse_metrics(std::string_view text) {
  constexpr std::string_view kBetween = " || ";
  std::vector<std::string> patterns;
  for (;;) {
    const size_t end = text.find(kBetween);
    const std::string_view pattern = trim(text.substr(0, end));
    if (const std::string_view folder = event_folder(pattern); !folder.empty()) {
      if (Status checked = check_path_pattern(folder); !checked)
        return std::move(checked).error().with_context("events");
    } else if (auto expanded = expand_pattern(pattern); !expanded) {
      return std::move(expanded).error();
    }
    if (patterns.size() >= kMostPatterns)
      return Error{Errc::kInvalid, "there are more than " + std::to_string(kMostPatterns) +
                                       " expressions; allowed: up to " + std::to_string(kMostPatterns) +
                                       ", with \" || \" between them"};
    patterns.emplace_back(pattern);
    if (end == std::string_view::npos) return patterns;
    text.remove_prefix(end + kBetween.size());
  }
}

Result<std::vector<std::string>> expand_metrics(const std::vector<std::string>& parts, const PathNames& names) {
  std::vector<std::string> expanded = parts;
  for (std::string& part : expanded) {
    const std::string_view folder = event_folder(part);
    if (folder.empty()) continue;
    auto path = expand_path(folder, names);
    if (!path) return std::move(path).error().with_context("events");
    part = std::string(kEvents) + *path;
  }
  return expanded;
}

}  // namespace dl
