// SPDX-License-Identifier: Apache-2.0
// Writes words as a shell reads them. Pure.
#pragma once

#include <string>
#include <vector>

namespace dl {

// The word as it is if no character of it means anything to a POSIX shell, else in single quotes.
std::string shell_word(const std::string& word);

// The words of a command, with a blank between two.
std::string shell_words(const std::vector<std::string>& words);

}  // namespace dl
