// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/box_text.h"

#include <map>

#include "common/base/parse.h"

namespace dl::ckpt {

std::string format_boxes(const RegisteredTensor& tensor) {
  std::string line;
  for (const RegisteredPart& part : tensor.parts())
    for (const Dims* numbers : {&part.box.offset, &part.box.extent})
      for (const int64_t number : *numbers) line += (line.empty() ? "" : " ") + std::to_string(number);
  return line;
}

Result<std::vector<Box>> parse_boxes(std::string_view line, const Dims& shape) {
  const Error bad{
      Errc::kInternal,
      "a message of another rank about the boxes of tensors cannot be read; all ranks need the same libdlckpt"};
  Dims numbers;
  if (!line.empty()) {
    for (const std::string& word : split(line, ' ')) {
      const auto number = parse_int(word, 0, INT64_MAX);
      if (!number) return bad;
      numbers.push_back(*number);
    }
  }
  std::vector<Box> boxes;
  const auto ndim = static_cast<std::ptrdiff_t>(shape.size());
  if (ndim == 0) {
    boxes.push_back(Box{});
    return boxes;
  }
  if (numbers.size() % (2 * shape.size()) != 0) return bad;
  for (auto at = numbers.begin(); at != numbers.end(); at += 2 * ndim) {
    Box box{Dims(at, at + ndim), Dims(at + ndim, at + 2 * ndim)};
    if (!within(box, shape)) return bad;
    boxes.push_back(std::move(box));
  }
  return boxes;
}

// Writes each text as its length, a newline and the text, or as "=" and the index of an earlier text that is the same.
std::string join_texts(const std::vector<std::string>& texts) {
  std::string all;
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto [at, added] = known.try_emplace(texts[i], i);
    if (added) {
      all += std::to_string(texts[i].size()) + "\n" + texts[i];
    } else {
      all += "=" + std::to_string(at->second) + "\n";
    }
  }
  return all;
}

Result<std::vector<std::string>> split_texts(std::string_view joined) {
  const Error bad{Errc::kInternal,
                  "a message of rank 0 about the boxes of tensors cannot be read; all ranks need the same libdlckpt"};
  std::vector<std::string> texts;
  while (!joined.empty()) {
    const size_t end = joined.find('\n');
    if (end == std::string_view::npos) return bad;
    const bool repeated = joined[0] == '=';
    const auto number = parse_int(joined.substr(repeated ? 1 : 0, end - (repeated ? 1 : 0)), 0, INT64_MAX);
    joined.remove_prefix(end + 1);
    if (!number) return bad;
    const auto value = static_cast<uint64_t>(*number);
    if (value >= (repeated ? texts.size() : joined.size() + 1)) return bad;
    if (repeated) {
      texts.push_back(texts[value]);
    } else {
      texts.emplace_back(joined.substr(0, value));
      joined.remove_prefix(value);
    }
  }
  return texts;
}

}  // namespace dl::ckpt
