// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/once_more.h"

#include "common/base/parse.h"

namespace dl::supervise {
namespace {

constexpr size_t kMostCommand = 1000;

}  // namespace

bool puts_back_once_more(const slurm_cli::Version& version) {
  return version.at_least(24, 5) && !version.at_least(26, 5);
}

bool is_marked_preempted(const std::vector<record::Event>& events) {
  bool marked = false;
  for (const record::Event& event : events) {
    // An event may carry both: the preemption that sets Slurm's mark comes before the end of the run that removes it.
    if (event.preempted) marked = true;
    if (event.once_more) marked = false;
  }
  return marked;
}

std::string command_text(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
  return printable(text, kMostCommand);
}

std::optional<record::Event> ended_before(const std::vector<record::Event>& events, const std::string& command,
                                          int slurm_restarts) {
  for (auto event = events.rbegin(); event != events.rend(); ++event)
    if (event->once_more == slurm_restarts && event->command == command) return *event;
  return std::nullopt;
}

}  // namespace dl::supervise
