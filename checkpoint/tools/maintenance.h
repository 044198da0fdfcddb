// SPDX-License-Identifier: Apache-2.0
// The subcommands that change a checkpoint directory or put load on it. They have rows in dlckpt.cpp, like those of
// command.h.
#pragma once

#include "checkpoint/store/retire.h"
#include "checkpoint/tools/command.h"

namespace dl::ckpt::tool {

// What --keep, --keep-every and --best say: which checkpoints are kept.
struct RetentionOptions {
  int keep = 0;  // 0: nothing is removed
  int64_t keep_every = 0;
  std::string best;
};
// Adds the three options; keep_help is the help text of --keep.
void add_retention(CommandLine* command, RetentionOptions* options, const std::string& keep_help);
// kInvalid: --best is malformed. Without --keep it is a policy that nobody may use.
Result<RetentionPolicy> policy_of(const RetentionOptions& options);

void add_send(CommandLine* line, int* exit_code);
void add_fetch(CommandLine* line, int* exit_code);
void add_fork(CommandLine* line, int* exit_code);
void add_gc(CommandLine* line, int* exit_code);
void add_pin(CommandLine* line, int* exit_code);
void add_unpin(CommandLine* line, int* exit_code);
void add_bench(CommandLine* line, int* exit_code);

}  // namespace dl::ckpt::tool
