// SPDX-License-Identifier: Apache-2.0
// Runs the installed `dlckpt` for what concerns object stores, so that nothing of their client is in a process that
// trains. It is started by posix_spawn(), which neither copies the page tables of a process with much memory nor runs
// any handler of fork().
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::ckpt {

// The program and the environment that it gets. Both are taken once, by the thread that opens the checkpoint directory:
// later another thread of the program may be changing the environment.
struct ObjectProgram {
  std::string path;
  std::vector<std::string> environment;  // "NAME=value"
};
// kUnsupported: there is no dlckpt.
Result<ObjectProgram> find_object_program();

// Called about five times a second while the program runs. Its error ends the program, and is the result.
using Tick = std::function<Status()>;
// Called when the program says that bytes have moved.
using Moving = std::function<void()>;

// Runs "dlckpt WORDS... --beside <this process>" to its end, with DL_CHECKPOINT_LEASE=lease_token in its environment
// unless that is empty. Returns the words behind "ok" of its answer. kIo: it failed, with its own sentence. *remarks
// (may be nullptr) receives what it complained of, whether or not it succeeded. moving may be empty.
Result<std::vector<std::string>> run_object_program(const ObjectProgram& program, const std::vector<std::string>& words,
                                                    const std::string& lease_token, const Tick& tick,
                                                    std::vector<std::string>* remarks = nullptr,
                                                    const Moving& moving = {});

}  // namespace dl::ckpt
