// SPDX-License-Identifier: Apache-2.0
// Prepares and checks standard input, output and error.
#pragma once

#include "common/base/result.h"

namespace dl {

// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed. Otherwise the next file or socket that the
// program opens would get that number: messages would be written into it, and libuv aborts a process that closes one of
// them. To be called at the beginning of main(), before anything else is opened.
void open_closed_standard_files();

// Whether standard input is a file, a pipe or a socket, and so may hold input for this program. False for a terminal,
// since a background process that reads its terminal is stopped, and for devices such as /dev/null.
bool standard_input_is_given();

// Writes out what stdout still buffers. Returns an error such as "standard output: No space left on device" if that
// fails, or if an earlier write failed. To be called at the end of a program whose output is its answer, since exit()
// would not report such an error.
Status flush_standard_output();

}  // namespace dl
