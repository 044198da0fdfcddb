// SPDX-License-Identifier: Apache-2.0
// A look at the text of a batch script: whether it starts anything beside the one process of its own. Pure.
#pragma once

#include <string_view>

namespace dl {

// True if the script names a program that starts processes in the allocation (dlrun, srun, mpirun, torchrun, ...), and
// also if it hands over to something whose text is not seen here: another script, or a command in a variable. It reads
// words, not the shell's language, so it may say true of a word in a text; it looks at the first 256 KiB.
bool may_start_tasks(std::string_view script);

}  // namespace dl
