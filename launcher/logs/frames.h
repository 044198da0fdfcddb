// SPDX-License-Identifier: Apache-2.0
// The form of a compressed log: zstd frames that each hold 1 MiB of the log, and a seek table at the end, as in zstd's
// "seekable format" (github.com/facebook/zstd, contrib/seekable_format). zstd and zstdcat read such a file as any
// other; with the table a reader goes to any place at once. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::logs {

constexpr char kPackedSuffix[] = ".zst";
constexpr size_t kFrameBytes = 1 << 20;  // of the log
constexpr size_t kSeekFooter = 9;

struct FrameSize {
  uint32_t packed = 0;  // bytes in the file
  uint32_t bytes = 0;   // of the log
};

// The whole table: what stands behind the last frame.
std::string format_seek_table(const std::vector<FrameSize>& frames);
// Returns how many bytes at the end of a file are the table. footer: the last kSeekFooter bytes of the file. None if it
// has no table.
std::optional<size_t> seek_table_bytes(std::string_view footer, uint64_t file_size);
// None if `table` is not one that format_seek_table() could have written.
std::optional<std::vector<FrameSize>> parse_seek_table(std::string_view table);

}  // namespace dl::logs
