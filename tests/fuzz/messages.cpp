// SPDX-License-Identifier: Apache-2.0
// What ranks say to one another: parts separated by 0xFF are what one rank each said; rank 0 merges them.
#include "checkpoint/group/messages.h"

#include <algorithm>

#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

constexpr size_t kMaxRanks = 16;

// The first ranks that spoke.
std::vector<std::string> ranks_of(const uint8_t* data, size_t size) {
  std::vector<std::string> said;
  const uint8_t* const end = data + size;
  for (const uint8_t* at = data; said.size() < kMaxRanks;) {
    const uint8_t* const next = std::find(at, end, uint8_t{0xFF});
    said.emplace_back(at, next);
    if (next == end) break;
    at = next + 1;
  }
  return said;
}

void refuse(const std::vector<std::string>& said) {
  auto heard = hear_all(said);
  if (heard) return must(heard->size() == said.size(), "every rank is heard");
  const Error& error = heard.error();
  must(!error.text.empty(), "an error has a sentence");
  static FirstTime first_time;
  const std::string again = say_error(error);
  if (!first_time(again)) return;
  auto reheard = hear(again);
  must(!reheard && reheard.error().code == error.code && reheard.error().text == error.text &&
           reheard.error().sys_errno == error.sys_errno,
       "an error can be passed on");
}

}  // namespace

void messages(const uint8_t* data, size_t size) {
  static FirstTime first_time;
  std::vector<Part> parts;
  std::vector<std::string> refused;
  for (std::string& text : ranks_of(data, size)) {
    auto part = parse_part(text);
    if (!part) {
      refused.push_back(std::move(text));
      continue;
    }
    const std::string again = format_part(*part);
    if (first_time(again)) {
      auto reparsed = parse_part(again);
      must(static_cast<bool>(reparsed), "a part that was said can be heard");
      must(format_part(*reparsed) == again, "what was heard is what was said");
    }
    parts.push_back(*std::move(part));
  }
  if (!refused.empty()) refuse(refused);
  if (parts.empty()) return;
  Manifest manifest;
  manifest.name = CheckpointName{1, uint64_t{1} << 32};
  manifest.world_size = static_cast<int>(parts.size());
  manifest.writer = "fuzz";
  manifest.run_id = "fuzz";
  for (Part& part : parts) {
    for (FileRecord& file : part.files) file.root = table_root(file.blocks);
    for (MemberRecord& member : part.members) member.root = table_root(member.blocks);
  }
  if (!merge_parts(std::move(parts), &manifest)) return;
  const std::string text = format_manifest(manifest);
  auto read = parse_manifest(text);
  must(static_cast<bool>(read), "what was merged is a manifest");
  must(format_manifest(*read) == text, "the manifest is what was merged");
}

}  // namespace dl::ckpt::fuzz
