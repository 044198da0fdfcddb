// SPDX-License-Identifier: Apache-2.0
// What a program does first about standard input, output and error.
#pragma once

namespace dl {

// Opens /dev/null in the place of each of the descriptors 0, 1 and 2 that is closed. Else the next file or socket that
// the program opens gets that number: messages would be written into it, and libuv ends a process that closes one.
// For the beginning of main(), before anything else is opened.
void open_closed_standard_files();

// Whether standard input holds something that was meant for this program: a file, a pipe or a socket. A terminal is
// none, since whoever reads it in the background is stopped, and neither is a device such as /dev/null.
bool standard_input_is_given();

}  // namespace dl
