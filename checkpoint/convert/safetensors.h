// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes with the length of the header (little-endian), the header (JSON), the data without
// gaps.
//
// Input is treated as hostile, as strictly as the format's own library does: no name twice, every byte of the data
// belongs to exactly one tensor, sizes agree with dtype and shape, nothing follows the data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"

namespace dl::ckpt {

constexpr uint64_t kMaxSafetensorsHeader = 100000000;  // bytes; the format's own limit

struct SafetensorsEntry {
  std::string name;
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  uint64_t at = 0;  // offset of the data, counted from the end of the header, bytes
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // sorted by offset
  std::map<std::string, std::string> metadata;  // "__metadata__"
  uint64_t data_at = 0;                         // offset of the data in the file, bytes
  uint64_t data_bytes = 0;
};

// "BF16" and so on; nullptr if the format has no name for it (complex128).
const char* safetensors_dtype(const DtypeInfo& dtype);

// Sets the entries' places (wide elements first, then by name, so that all are aligned) and returns length and header,
// padded so that the data begins at a multiple of 8. Precondition: safetensors_dtype() knows all dtypes. With
// `all_dtypes` complex128 is written as "C128", for our own pipe to Python.
std::string lay_out_safetensors(SafetensorsHeader* header, bool all_dtypes = false);

// `text` is the header's JSON; `data_bytes` follow it. kCorrupt; kUnsupported for a dtype that checkpoints do not have
// (the error names it). `all_dtypes` as above.
Result<SafetensorsHeader> parse_safetensors(std::string_view text, uint64_t data_bytes, bool all_dtypes = false);

// model.safetensors.index.json: the file in which each tensor is.
struct SafetensorsIndex {
  uint64_t total_bytes = 0;
  std::map<std::string, std::string> files;  // name of a tensor -> name of a file in the index's directory
};
std::string format_safetensors_index(const SafetensorsIndex& index);
// kCorrupt, also for a file name that would lead out of the directory.
Result<SafetensorsIndex> parse_safetensors_index(std::string_view text);
// "dir/model.safetensors", 1, 5 -> "dir/model-00002-of-00005.safetensors" (the index counts from 0).
std::string safetensors_shard_name(const std::string& file, size_t index, size_t count);

}  // namespace dl::ckpt
