// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/voice.h"

#include <cstdio>
#include <utility>

namespace dl::supervise {

Voice::Voice(int run, bool quiet, Write write)
    : name_(run > 0 ? "dlrun " + std::to_string(run) : "dlrun"), quiet_(quiet), write_(std::move(write)) {
  if (!write_) write_ = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
}

void Voice::say(const std::string& line) const {
  if (!quiet_) warn(line);
}

void Voice::warn(const std::string& line) const {
  write_(name_ + ": " + line + "\n");
}

}  // namespace dl::supervise
