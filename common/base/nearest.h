// SPDX-License-Identifier: Apache-2.0
// Guesses which word a user has misspelt. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl {

// The word of `known` that is closest to `word`: the one with the fewest letters changed, left out, added or swapped
// (at most a third of the word); if there is none, the only one that contains `word` or is contained in it ("torch":
// "pytorch"). Empty if no word is found.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
// "; did you mean 'status'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace dl
