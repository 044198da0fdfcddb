// SPDX-License-Identifier: Apache-2.0
// Guesses from the text of a batch script whether it starts other processes. Pure.
#pragma once

#include <string_view>

namespace dl {

// True if the script names a program that starts processes in the allocation (dlrun, srun, mpirun, torchrun, ...), and
// also if it runs something whose text is not known here: another script, or a command in a variable. The search looks
// for words and ignores the shell's grammar, so a word in a quoted text may give true as well. Only the first 256 KiB
// are read.
bool may_start_tasks(std::string_view script);

}  // namespace dl
