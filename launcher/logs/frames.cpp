// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/frames.h"

namespace dl::logs {
namespace {

constexpr uint32_t kSkippable = 0x184D2A5E, kSeekable = 0x8F92EAB1;
constexpr size_t kHead = 8, kEntry = 8;

void put32(std::string* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

uint32_t get32(std::string_view from, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(from[at + i])) << (8 * i);
  return value;
}

}  // namespace

std::string format_seek_table(const std::vector<FrameSize>& frames) {
  std::string text;
  put32(&text, kSkippable);
  put32(&text, static_cast<uint32_t>(frames.size() * kEntry + kSeekFooter));
  for (const FrameSize& frame : frames) {
    put32(&text, frame.packed);
    put32(&text, frame.bytes);
  }
  put32(&text, static_cast<uint32_t>(frames.size()));
  text.push_back('\0');  // no checksums: zstd's own are in the frames
  put32(&text, kSeekable);
  return text;
}

std::optional<size_t> seek_table_bytes(std::string_view footer, uint64_t file_size) {
  if (footer.size() != kSeekFooter || get32(footer, 5) != kSeekable || footer[4] != '\0') return std::nullopt;
  const uint64_t bytes = kHead + uint64_t{get32(footer, 0)} * kEntry + kSeekFooter;
  if (bytes > file_size) return std::nullopt;
  return static_cast<size_t>(bytes);
}

std::optional<std::vector<FrameSize>> parse_seek_table(std::string_view table) {
  if (table.size() < kHead + kSeekFooter || get32(table, 0) != kSkippable) return std::nullopt;
  const auto bytes = seek_table_bytes(table.substr(table.size() - kSeekFooter), table.size());
  if (!bytes || *bytes != table.size() || get32(table, 4) != table.size() - kHead) return std::nullopt;
  std::vector<FrameSize> frames;
  for (size_t at = kHead; at + kSeekFooter < table.size(); at += kEntry)
    frames.push_back({get32(table, at), get32(table, at + 4)});
  return frames;
}

}  // namespace dl::logs
