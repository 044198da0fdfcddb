// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/voice.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/base/result.h"

namespace dl::supervise {

Voice::Voice(int run, bool quiet, Write write)
    : name_(run > 0 ? "dlrun " + std::to_string(run) : "dlrun"), quiet_(quiet), write_(std::move(write)) {}

void Voice::say(const std::string& line) const {
  if (!quiet_) warn(line);
}

void Voice::warn(const std::string& line) const {
  const std::string text = name_ + ": " + line + "\n";
  if (write_)
    write_(text);
  else if (std::fputs(text.c_str(), stderr) == EOF && errno != EPIPE)  // nobody wants to read it
    error_ = errno_error("standard error", errno).text;
}

}  // namespace dl::supervise
