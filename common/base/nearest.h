// SPDX-License-Identifier: Apache-2.0
// The word that was probably meant. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl {

// That of `known` which `word` was probably meant to be: the one with the fewest letters changed, left out, put in or
// swapped (at most a third of the word), else the only one that holds the word or is held by it ("torch": "pytorch").
// Empty: none.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
// "; did you mean 'status'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace dl
