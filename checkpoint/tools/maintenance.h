// SPDX-License-Identifier: Apache-2.0
// The subcommands that change a checkpoint directory or load it: rows in dlckpt.cpp, as those of command.h.
#pragma once

#include "checkpoint/tools/command.h"

namespace dl::ckpt::tool {

void add_gc(CLI::App* app, int* exit_code);
void add_pin(CLI::App* app, int* exit_code);
void add_unpin(CLI::App* app, int* exit_code);
void add_bench(CLI::App* app, int* exit_code);

}  // namespace dl::ckpt::tool
