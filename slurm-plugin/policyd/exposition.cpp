// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/exposition.h"

#include <fmt/core.h>

#include "common/base/letters.h"

namespace dl::policyd {

std::string label_value(std::string_view text) {
  std::string value = "\"";
  for (size_t count = 0; !text.empty(); ++count) {
    if (count == kMostLabelCharacters) {
      value += "\xe2\x80\xa6";  // an ellipsis
      break;
    }
    const char first = text.front();
    const bool is_ascii = static_cast<unsigned char>(first) < 0x80;
    size_t size = 1;
    if (first == '\\' || first == '"') {
      value += '\\';
      value += first;
    } else if (first == '\n') {
      value += "\\n";
    } else if (is_ascii && first >= 0x20 && first != 0x7f) {
      value += first;
    } else if (const size_t letter = letter_at(text); letter > 0) {
      value += text.substr(0, letter);
      size = letter;
    } else {
      value += '?';
    }
    text.remove_prefix(size);
  }
  return value + '"';
}

void begin_metric(std::string* text, const char* name, const char* type, const char* help) {
  *text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

}  // namespace dl::policyd
