// SPDX-License-Identifier: Apache-2.0
// The keys that people press, from the bytes that a terminal sends. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::top {

enum class Key { kLetter, kEnter, kEscape, kUp, kDown, kLeft, kRight, kPageUp, kPageDown, kHome, kEnd };

struct Press {
  Key key = Key::kLetter;
  char letter = 0;  // of kLetter: a printable ASCII character
};

// Sequences of keys may arrive in parts. Sequences of unknown keys, pasted control characters and letters outside of
// ASCII mean nothing.
class KeyReader {
 public:
  std::vector<Press> feed(std::string_view bytes);
  // Nothing has come for a while: what looked like the beginning of a sequence was the key Escape.
  std::vector<Press> settle();
  bool unsettled() const { return !waiting_.empty(); }

 private:
  std::string waiting_;
};

}  // namespace dl::top
