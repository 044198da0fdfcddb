// SPDX-License-Identifier: Apache-2.0
#include "common/contract/comment_word.h"

#include <string>

namespace dl {

std::string_view comment_word(std::string_view comment, std::string_view key) {
  const size_t ours = comment.find("dl:");
  if (ours == std::string_view::npos) return {};
  const std::string_view words = comment.substr(ours, comment.find(" dir=", ours) - ours);
  const std::string begin = " " + std::string(key) + "=";
  const size_t at = words.find(begin);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = words.substr(at + begin.size());
  return rest.substr(0, rest.find(' '));
}

}  // namespace dl
