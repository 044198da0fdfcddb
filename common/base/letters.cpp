// SPDX-License-Identifier: Apache-2.0
#include "common/base/letters.h"

#include <fmt/core.h>

#include <cstdint>
#include <cstdlib>

#include "common/base/parse.h"

namespace dl {
namespace {

bool letters_are_shown = false;

constexpr std::string_view kCut = "\u2026";  // printable() itself puts this at the end of a text that it cuts

struct Range {
  uint32_t first, last;
};
// From Unicode 15: control characters, format characters (general category Cf) that fonts do not draw, separators,
// surrogates, variation selectors and private use.
constexpr Range kHidden[] = {{0x80, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},
                             {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xd800, 0xf8ff},
                             {0xfdd0, 0xfdef}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff0, 0xffff}};
constexpr uint32_t kLast = 0x3ffff;  // higher planes hold only tags, variation selectors and private use

}  // namespace

size_t utf8_at(std::string_view text, uint32_t* code) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  uint32_t its = first & (0xffU >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
    its = its << 6 | (byte(i) & 0x3fU);
  }
  // UTF-8 forbids encodings that are longer than necessary, and surrogates.
  if ((size == 3 && its < 0x800) || (size == 4 && its < 0x10000)) return 0;
  if ((its >= 0xd800 && its <= 0xdfff) || its > 0x10ffff) return 0;
  *code = its;
  return size;
}

size_t letter_at(std::string_view text) {
  uint32_t code = 0;
  const size_t size = utf8_at(text, &code);
  if (size == 0 || code > kLast || (code & 0xfffeU) == 0xfffe) return 0;
  for (const Range& range : kHidden)
    if (code >= range.first && code <= range.last) return 0;
  return size;
}

void show_letters(bool on) {
  letters_are_shown = on;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before threads are started
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text = value;
    for (const std::string_view form : {"UTF-8", "utf8", "UTF8", "utf-8"})
      if (text.find(form) != std::string_view::npos) return true;
    return false;
  }
  return false;
}

std::string printable(std::string_view text, size_t max_length) {
  std::string out;
  size_t length = 0;
  while (!text.empty()) {
    if (length >= max_length) return out.append(kCut);
    size_t size = letters_are_shown ? letter_at(text) : 0;
    if (size == 0 && text == kCut) size = kCut.size();
    const char c = text.front();
    if (size == 0 && c >= 0x20 && c < 0x7f) size = 1;
    if (size == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      length += 4;
      text.remove_prefix(1);
      continue;
    }
    out += text.substr(0, size);
    ++length;
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace dl
