// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error, as main() has to treat them first.
#pragma once

#include "common/base/result.h"

namespace dl {

// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed. Otherwise the next file or socket that the
// program opens would get that number: messages would be written into it, and libuv aborts a process that closes one of
// them. To be called at the beginning of main(), before anything else is opened.
void open_closed_standard_files();

// Whether standard input is a file, a pipe or a socket, so that it may hold input for this program. False for a
// terminal, since a process in the background that reads it is stopped, and for devices such as /dev/null.
bool standard_input_is_given();

// Writes out what stdout still holds. An error if that failed, or a write before it: "standard output: No space left on
// device". To be called at the end of a program whose output is its answer, since exit() would keep silent.
Status flush_standard_output();

}  // namespace dl
