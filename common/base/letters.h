// SPDX-License-Identifier: Apache-2.0
// Decides which non-ASCII characters of a text from somebody else may be written to a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dl {

// The number of bytes of the character that the text begins with, if it is well-formed UTF-8 outside of ASCII; else 0.
// *code becomes its number in Unicode. Pure.
size_t utf8_at(std::string_view text, uint32_t* code);

// The number of bytes of the character that the text begins with, if it is well-formed UTF-8 outside of ASCII and
// changes nothing but its own place on a terminal; 0 for anything else: C1 controls, marks that turn the direction of
// writing, characters without width, line separators, surrogates and noncharacters. Pure.
size_t letter_at(std::string_view text);

// Sets whether printable() (parse.h) shows such characters as they are and counts each as one. Only for commands that
// write to their user's terminal; never for daemons, nor for what is put into Slurm's records. To be called before
// threads are started.
void show_letters(bool on);
// Whether the locale uses UTF-8, by LC_ALL, or LC_CTYPE, or LANG: the first of them that is set.
bool locale_is_utf8();

}  // namespace dl
