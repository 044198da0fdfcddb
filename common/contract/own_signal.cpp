// SPDX-License-Identifier: Apache-2.0
#include "common/contract/own_signal.h"

#include <fmt/core.h>

#include <cctype>
#include <csignal>
#include <cstring>
#include <vector>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr int kMostLead = 65535;

int signal_number(std::string_view name) {
  if (const auto number = parse_int(name, 1, NSIG - 1)) return static_cast<int>(*number);
  std::string upper(name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (upper.rfind("SIG", 0) == 0) upper.erase(0, 3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* known = sigabbrev_np(signal);
    if (known != nullptr && upper == known) return signal;
  }
  return 0;
}

// Splits a #SBATCH line into words as sbatch does: white space separates them unless it is quoted or follows a \, and #
// begins a comment.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool open = false, escaped = false;
  char quote = '\0';
  for (const char c : line) {
    if (!escaped && quote == '\0' && c == '#') break;
    if (!escaped && quote == '\0' && std::isspace(static_cast<unsigned char>(c)) != 0) {
      open = false;
      continue;
    }
    if (!open) words.emplace_back();
    open = true;
    if (escaped) {
      escaped = false;
      words.back() += c;
    } else if (c == '\\') {
      escaped = true;
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  return words;
}

// sbatch accepts an abbreviated option as long as it is unambiguous.
bool is_signal_option(std::string_view name) {
  constexpr std::string_view kOption = "--signal";
  constexpr size_t kLeast = 4;
  return name.size() >= kLeast && kOption.substr(0, name.size()) == name;
}

}  // namespace

std::optional<OwnSignal> parse_own_signal(std::string_view text) {
  OwnSignal signal;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    const std::string_view flags = text.substr(0, colon);
    if (flags.empty() || flags.find_first_not_of("RBrb") != std::string_view::npos) return std::nullopt;
    signal.to_script = flags.find_first_of("Bb") != std::string_view::npos;
    text.remove_prefix(colon + 1);
  }
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    const auto lead = parse_int(text.substr(at + 1), 0, kMostLead);
    if (!lead) return std::nullopt;
    signal.lead_s = static_cast<int>(*lead);
    text = text.substr(0, at);
  }
  signal.number = signal_number(text);
  if (signal.number == 0) return std::nullopt;
  return signal;
}

std::string format_own_signal(const OwnSignal& signal) {
  const char* name = sigabbrev_np(signal.number);
  return fmt::format("{}{}@{}", signal.to_script ? "B:" : "", name != nullptr ? name : std::to_string(signal.number),
                     signal.lead_s);
}

std::optional<OwnSignal> own_signal_of_script(std::string_view script) {
  constexpr std::string_view kMark = "#SBATCH";
  std::optional<OwnSignal> found;
  for (const std::string& line : split(std::string(script), '\n')) {
    if (line.rfind(kMark, 0) != 0) {
      const std::string_view text = trim(line);
      if (!text.empty() && text[0] != '#') break;  // sbatch reads no further than the first command
      continue;
    }
    const std::vector<std::string> words = words_of(std::string_view(line).substr(kMark.size()));
    for (size_t i = 0; i < words.size(); ++i) {
      const size_t equals = words[i].find('=');
      if (!is_signal_option(std::string_view(words[i]).substr(0, equals))) continue;
      const std::string next = i + 1 < words.size() ? words[i + 1] : std::string();
      if (const auto signal = parse_own_signal(equals == std::string::npos ? next : words[i].substr(equals + 1)))
        found = signal;
    }
  }
  return found;
}

bool ends_a_process(int signal) {
  return signal != SIGCHLD && signal != SIGCONT && signal != SIGURG && signal != SIGWINCH;
}

}  // namespace dl
