// SPDX-License-Identifier: Apache-2.0
#include "launcher/top/keys.h"

#include <optional>

namespace dl::top {
namespace {

constexpr size_t kLongestSequence = 32;  // a longer one is no key

struct Named {
  std::string_view bytes;  // behind "\033[" or "\033O"
  Key key;
};
// xterm, its application mode, the Linux console, screen and tmux.
constexpr Named kSequences[] = {{"A", Key::kUp},       {"B", Key::kDown}, {"C", Key::kRight}, {"D", Key::kLeft},
                                {"H", Key::kHome},     {"F", Key::kEnd},  {"1~", Key::kHome}, {"4~", Key::kEnd},
                                {"7~", Key::kHome},    {"8~", Key::kEnd}, {"M", Key::kEnter}, {"5~", Key::kPageUp},
                                {"6~", Key::kPageDown}};

std::optional<Key> key_of(std::string_view sequence) {
  for (const Named& one : kSequences)
    if (one.bytes == sequence) return one.key;
  return std::nullopt;
}

// The length of the sequence that the bytes begin with: "\033[", parameters, a final character. 0: it is not complete.
size_t sequence_at(std::string_view bytes) {
  if (bytes.size() < 2) return 0;
  if (bytes[1] == 'O') return bytes.size() < 3 ? 0 : 3;
  if (bytes[1] != '[') return 1;  // Escape, and another key
  for (size_t i = 2; i < bytes.size(); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c >= 0x40 && c <= 0x7e) return i + 1;
    if (c < 0x20 || c > 0x3f) return i;  // broken off
  }
  return bytes.size() > kLongestSequence ? bytes.size() : 0;
}

}  // namespace

std::vector<Press> KeyReader::feed(std::string_view bytes) {
  waiting_ += bytes;
  std::vector<Press> presses;
  std::string_view left = waiting_;
  while (!left.empty()) {
    const char c = left.front();
    size_t size = 1;
    if (c == '\033') {
      size = sequence_at(left);
      if (size == 0) break;
      if (size == 1)
        presses.push_back({Key::kEscape});
      else if (const auto key = size > 2 ? key_of(left.substr(2, size - 2)) : std::nullopt)
        presses.push_back({*key});
    } else if (c == '\r' || c == '\n') {
      presses.push_back({Key::kEnter});
    } else if (c >= 0x20 && c < 0x7f) {
      presses.push_back({Key::kLetter, c});
    }
    left.remove_prefix(size);
  }
  waiting_ = std::string(left);
  return presses;
}

std::vector<Press> KeyReader::settle() {
  std::vector<Press> presses;
  if (waiting_ == "\033") presses.push_back({Key::kEscape});
  waiting_.clear();
  return presses;
}

}  // namespace dl::top
