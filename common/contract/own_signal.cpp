// SPDX-License-Identifier: Apache-2.0
#include "common/contract/own_signal.h"

#include <fmt/core.h>

#include <csignal>
#include <cstring>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr int kMostLead = 65535;

int signal_number(std::string_view name) {
  if (const auto number = parse_int(name, 1, NSIG - 1)) return static_cast<int>(*number);
  if (name.substr(0, 3) == "SIG") name.remove_prefix(3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* known = sigabbrev_np(signal);
    if (known != nullptr && name == known) return signal;
  }
  return 0;
}

}  // namespace

std::optional<OwnSignal> parse_own_signal(std::string_view text) {
  OwnSignal signal;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    const std::string_view flags = text.substr(0, colon);
    if (flags.empty() || flags.find_first_not_of("RB") != std::string_view::npos) return std::nullopt;
    signal.to_script = flags.find('B') != std::string_view::npos;
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
  constexpr std::string_view kMark = "#SBATCH", kOption = "--signal";
  std::optional<OwnSignal> found;
  for (const std::string& line : split(std::string(script), '\n')) {
    const std::string text(trim(line));
    if (text.empty() || text[0] != '#') {
      if (!text.empty()) break;  // sbatch reads no further than the first command
      continue;
    }
    if (text.rfind(kMark, 0) != 0) continue;
    const std::vector<std::string> words = split(text.substr(kMark.size()), ' ');
    for (size_t i = 0; i < words.size(); ++i) {
      std::string value;
      if (!words[i].empty() && words[i][0] == '#') break;
      if (words[i].rfind(std::string(kOption) + "=", 0) == 0)
        value = words[i].substr(kOption.size() + 1);
      else if (words[i] == kOption && i + 1 < words.size())
        value = words[i + 1];
      if (const auto signal = parse_own_signal(value)) found = signal;
    }
  }
  return found;
}

bool ends_a_process(int signal) {
  return signal != SIGCHLD && signal != SIGCONT && signal != SIGURG && signal != SIGWINCH;
}

}  // namespace dl
