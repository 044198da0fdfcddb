// SPDX-License-Identifier: Apache-2.0
// Which characters outside of ASCII a terminal may be given from a text that somebody else wrote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dl {

// The number of bytes of the character that the text begins with, if it is well-formed UTF-8 outside of ASCII and
// changes nothing but its own place on a terminal; 0 for anything else: C1 controls, marks that turn the direction of
// writing, characters without width, line separators, surrogates and noncharacters. Pure.
size_t letter_at(std::string_view text);

// From now on printable() (parse.h) shows such characters as they are, and counts each as one. For commands that write
// to their user's terminal alone; never for daemons, nor for what is put into Slurm's records. Call it before threads
// are started.
void show_letters(bool on);
// Whether LC_ALL, else LC_CTYPE, else LANG says UTF-8.
bool locale_is_utf8();

}  // namespace dl
