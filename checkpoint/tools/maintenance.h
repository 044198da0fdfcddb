// SPDX-License-Identifier: Apache-2.0
// The subcommands that change a checkpoint directory or put load on it. They have rows in dlckpt.cpp, like those of
// command.h.
#pragma once

#include "checkpoint/tools/command.h"

namespace dl::ckpt::tool {

void add_send(CommandLine* line, int* exit_code);
void add_fetch(CommandLine* line, int* exit_code);
void add_fork(CommandLine* line, int* exit_code);
void add_gc(CommandLine* line, int* exit_code);
void add_pin(CommandLine* line, int* exit_code);
void add_unpin(CommandLine* line, int* exit_code);
void add_bench(CommandLine* line, int* exit_code);

}  // namespace dl::ckpt::tool
