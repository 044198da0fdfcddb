// SPDX-License-Identifier: Apache-2.0
// Runs a program that moves data (rclone, curl): its output is passed on while it runs, what it complains of is kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::data {

struct HelperRun {
  std::vector<std::string> argv;
  std::string input{};  // written to its standard input, which is then closed; at most 64 KiB
  // In place of `input`: the next piece for its standard input, "" at the end. An error ends the program *before* its
  // standard input is closed, so that it never takes a part for the whole, and is the result of run_helper(). If the
  // program closes its standard input, no more is asked for. Needs SIGPIPE to be ignored. May be empty.
  std::function<Result<std::string_view>()> next{};
  // Receives its output in order; an error ends the program, and is the result of run_helper(). May be empty.
  std::function<Status(std::string_view)> out{};
  // Receives each line of its complaints. May be empty.
  std::function<void(std::string_view)> line{};
  int64_t stall_ms = 120'000;  // if nothing moves for so long it is ended: kTimeout
  const std::atomic<bool>* stop = nullptr;
};

struct HelperEnd {
  int status = 0;      // as a shell has it
  std::string said{};  // its last complaints, at most 16 KiB, with all its secrets
};

// Starts the program in the calling thread, with which it ends at the latest. kNotFound: it is not installed; kBusy: it
// was stopped.
Result<HelperEnd> run_helper(const HelperRun& run);

}  // namespace dl::data
