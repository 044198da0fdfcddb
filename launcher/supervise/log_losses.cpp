// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/log_losses.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"

namespace dl::supervise {

using namespace protocol;

std::string LogLosses::add(int attempt, int rank, const LogLost& lost) {
  if (lost.bytes <= 0) return {};
  LogLost& known = logs_[{attempt, rank}];
  const bool first = known.bytes == 0;
  known.bytes = std::max(known.bytes, lost.bytes);
  known.error = lost.error;
  if (!first) return {};
  return fmt::format(
      "learner {}: {}; it goes on, but its log lacks what it writes from now on, until there is room again", rank,
      printable(lost.error, 300));
}

std::string LogLosses::add_output(const std::string& error) {
  if (error.empty() || std::find(outputs_.begin(), outputs_.end(), error) != outputs_.end()) return {};
  outputs_.push_back(error);
  return printable(error, 300) + "; it goes on, and what is missing there is in the job directory";
}

std::string LogLosses::note(int attempt, int rank) const {
  const auto found = logs_.find({attempt, rank});
  return found == logs_.end() ? std::string() : "its log is incomplete: " + printable(found->second.error, 300);
}

std::string LogLosses::summary(int events) const {
  std::string text;
  if (!logs_.empty()) {
    int64_t bytes = 0;
    for (const auto& [log, lost] : logs_) bytes += lost.bytes;
    text = fmt::format("{} log{} incomplete: {} of output could not be written ({})", logs_.size(),
                       logs_.size() == 1 ? " is" : "s are", format_bytes(static_cast<uint64_t>(bytes)),
                       printable(logs_.begin()->second.error, 300));
  }
  for (const std::string& error : outputs_)
    text += fmt::format("{}{}: what is missing there is in the job directory", text.empty() ? "" : "; ",
                        printable(error, 300));
  if (events > 0)
    text += fmt::format("{}{} change{} missing in events.jsonl", text.empty() ? "" : "; ", events,
                        events == 1 ? " is" : "s are");
  return text;
}

}  // namespace dl::supervise
