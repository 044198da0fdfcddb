// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes length of the header (little-endian), the header (JSON), the data without holes.
//
// What is read is treated as hostile, as strictly as the format's own library does it: no name twice, every byte of
// the data belongs to exactly one tensor, sizes are what dtype and shape say, nothing follows the data.
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
  uint64_t at = 0;  // offset of the data behind the header, bytes
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // by offset
  std::map<std::string, std::string> metadata;  // "__metadata__"
  uint64_t data_at = 0;                         // offset of the data in the file, bytes
  uint64_t data_bytes = 0;
};

// "BF16" and so on; nullptr where the format has none (complex128).
const char* safetensors_dtype(const DtypeInfo& dtype);

// Sets the entries' places (wide elements first, then by name, so that all are aligned) and returns length and header,
// padded so that the data begins at a multiple of 8. Precondition: safetensors_dtype() knows all dtypes.
// `all_dtypes` also writes complex128 as "C128", for our own pipe to Python.
std::string lay_out_safetensors(SafetensorsHeader* header, bool all_dtypes = false);

// `text` is the header's JSON, `data_bytes` how many bytes follow it. kCorrupt; kUnsupported for a dtype that
// checkpoints do not have (it is named). `all_dtypes` as above.
Result<SafetensorsHeader> parse_safetensors(std::string_view text, uint64_t data_bytes, bool all_dtypes = false);

// model.safetensors.index.json: which tensor is in which file.
struct SafetensorsIndex {
  uint64_t total_bytes = 0;
  std::map<std::string, std::string> files;  // tensor's name -> file name, in the index's directory
};
std::string format_safetensors_index(const SafetensorsIndex& index);
// kCorrupt also for a file name that would leave the directory.
Result<SafetensorsIndex> parse_safetensors_index(std::string_view text);
// "dir/model.safetensors", 1, 5 -> "dir/model-00002-of-00005.safetensors" (index counts from 0).
std::string safetensors_shard_name(const std::string& file, size_t index, size_t count);

}  // namespace dl::ckpt
