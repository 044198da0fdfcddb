// SPDX-License-Identifier: Apache-2.0
// What ranks say to one another: parts separated by 0xFF are what one rank each said; rank 0 merges them.
#include "checkpoint/group/messages.h"

#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

void messages(const uint8_t* data, size_t size) {
  std::vector<std::string> said(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == 0xFF) {
      said.emplace_back();
    } else {
      said.back().push_back(static_cast<char>(data[i]));
    }
  }
  auto heard = hear_all(said);
  if (!heard) must(!heard.error().text.empty() || heard.error().code != Errc::kInternal, "an error has a sentence");
  std::vector<Part> parts;
  for (const std::string& text : said) {
    auto part = parse_part(text);
    if (!part) continue;
    const std::string again = format_part(*part);
    auto reparsed = parse_part(again);
    must(static_cast<bool>(reparsed), "a part that was said can be heard");
    must(format_part(*reparsed) == again, "what was heard is what was said");
    parts.push_back(*std::move(part));
  }
  if (parts.empty()) return;
  Manifest manifest;
  manifest.name = CheckpointName{1, uint64_t{1} << 32};
  manifest.world_size = static_cast<int>(parts.size());
  manifest.writer = "fuzz";
  manifest.run_id = "fuzz";
  for (Part& part : parts)
    for (FileRecord& file : part.files) file.root = table_root(file.blocks);
  if (!merge_parts(std::move(parts), &manifest)) return;
  must(static_cast<bool>(parse_manifest(format_manifest(manifest))), "what was merged is a manifest");
}

}  // namespace dl::ckpt::fuzz
