// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/first_cause.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "common/contract/exit_codes.h"

namespace dl::supervise {
namespace {

bool is_root_like(const Failure& failure) {
  if (failure.kind == Failure::Kind::kAgentLost || failure.kind == Failure::Kind::kNotStarted ||
      failure.kind == Failure::Kind::kHang || failure.kind == Failure::Kind::kNoAgent ||
      failure.kind == Failure::Kind::kData)
    return true;
  if (failure.kind != Failure::Kind::kSignal) return false;
  switch (failure.signal) {
    case SIGKILL:
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
      return true;
    default:
      return false;
  }
}

constexpr size_t kShownException = 240;

// The learner's own account of its end.
std::string own_words(const Failure& failure) {
  std::string words = failure.memory ? ": out of memory" : "";
  if (failure.exception.empty()) return words;
  size_t end = std::min(failure.exception.size(), kShownException);
  // Do not cut within a character of several bytes.
  while (end < failure.exception.size() && end > 0 &&
         (static_cast<unsigned char>(failure.exception[end]) & 0xC0) == 0x80)
    --end;
  return words + ": " + failure.exception.substr(0, end) + (end < failure.exception.size() ? "..." : "");
}

}  // namespace

std::optional<Failure> first_cause(const std::vector<Failure>& failures) {
  const Failure* first = nullptr;
  for (const Failure& failure : failures)
    if (!failure.asked && (first == nullptr || failure.at_ms < first->at_ms)) first = &failure;
  if (first == nullptr) return std::nullopt;
  if (is_root_like(*first)) return *first;
  const Failure* better = nullptr;
  for (const Failure& failure : failures) {
    if (failure.asked || !is_root_like(failure) || failure.at_ms - first->at_ms > kSameMomentMs) continue;
    if (better == nullptr || failure.at_ms < better->at_ms) better = &failure;
  }
  return better != nullptr ? *better : *first;
}

int exit_status(const Failure& failure) {
  switch (failure.kind) {
    case Failure::Kind::kExit:
      return failure.exit != 0 ? failure.exit : kExitInternal;
    case Failure::Kind::kSignal:
      return 128 + failure.signal;
    case Failure::Kind::kAgentLost:
      return kExitNodeLost;
    case Failure::Kind::kNotStarted:
      return failure.exit != 0 ? failure.exit : kExitCannotStart;
    case Failure::Kind::kNoAgent:
      return kExitCannotStart;
    case Failure::Kind::kHang:
      return kExitHang;
    case Failure::Kind::kData:
      return kExitData;
    case Failure::Kind::kLauncher:
      return failure.exit != 0 ? failure.exit : kExitInternal;
  }
  return kExitInternal;
}

std::string describe(const Failure& failure) {
  std::string who = fmt::format("learner {}", failure.rank);
  if (failure.server >= 0) who = fmt::format("server {}", failure.server);
  if (failure.server == Failure::kSomeServer) who = "a server of the pool";
  if (!failure.host.empty()) who += " on " + failure.host;
  switch (failure.kind) {
    case Failure::Kind::kExit:
      return fmt::format("{} exited with code {}{}", who, failure.exit, own_words(failure));
    case Failure::Kind::kSignal: {
      const char* name = sigabbrev_np(failure.signal);
      return fmt::format("{} was killed by signal {} (SIG{}){}", who, failure.signal, name != nullptr ? name : "?",
                         own_words(failure));
    }
    case Failure::Kind::kAgentLost:
      return fmt::format("{} was lost: {}", who, failure.text.empty() ? "its agent is gone" : failure.text);
    case Failure::Kind::kNotStarted:
    case Failure::Kind::kNoAgent:
      return fmt::format("{} could not be started: {}", who, failure.text);
    case Failure::Kind::kHang:
      return fmt::format("{} hangs: {}", who, failure.text);
    case Failure::Kind::kLauncher:
      return failure.text;
    case Failure::Kind::kData:
      return fmt::format(
          "the data could not be fetched{}: {}", failure.host.empty() ? "" : " on " + failure.host,
          failure.text.empty() ? fmt::format("dl-data ended with status {}", failure.exit) : failure.text);
  }
  return who;
}

}  // namespace dl::supervise
