// SPDX-License-Identifier: Apache-2.0
// MANIFEST.json: lists what a checkpoint consists of. The checkpoint is committed once this file exists durably under a
// published name.
//
// Parsing treats the text as hostile: sizes are bounded, names cannot leave the directory, sums cannot overflow, boxes
// lie within shapes and data within files. What parse_manifest() returns needs no further check before it is used to
// read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/block_table.h"
#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/names.h"

namespace dl::ckpt {

// Readers accept every schema up to this one; writers write 1 where nothing of 2 is used (origins, several files of one
// writer, members, metrics), and 2 where nothing of 3 is (packed tensors).
constexpr int kManifestSchema = 3;
constexpr size_t kMaxMetrics = 1000;
constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxPackedIndexBytes = uint64_t{1} << 30;

// The place in a data file of the packed tensors, which are not listed in the manifest itself (packed_index.h).
struct PackedRecord {
  uint64_t count = 0;  // tensors
  Extent data, index;  // in the file
};

struct FileRecord {
  uint32_t writer = 0;  // rank; the name is format_file_name(writer, part)
  uint32_t part = 0;
  // Written by an earlier save, with the identity given here in its user block, and linked or copied into this
  // checkpoint because nothing in it has changed since.
  std::optional<CheckpointName> origin;
  uint64_t size = 0;
  Hash128 root;
  Extent table;  // place of the block table in the file, spare rows included
  std::optional<PackedRecord> packed;
  std::vector<Block> blocks;
  std::string name() const { return format_file_name(writer, part); }
};

// A part of a tensor, stored without gaps in C order.
struct ShardRecord {
  size_t file = 0;      // index into Manifest::files
  std::string h5_path;  // for people with h5py
  uint64_t at = 0;      // byte offset of the data in the file
  Box box;
};

struct TensorRecord {
  std::string path;
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  bool replicated = false;
  std::vector<ShardRecord> shards;  // disjoint, together the whole tensor; empty ones may be listed
  bool packed = false;              // it is listed in the index of its file, not in the manifest
  uint64_t bytes() const { return volume(shape).value_or(0) * dtype->size; }
};

struct BlobRecord {
  std::string path;
  int rank = -1;  // -1: one for all ranks
  size_t file = 0;
  std::string h5_path;
  uint64_t at = 0;
  uint64_t size = 0;
};

// A file of the program's own, kept as it is.
struct MemberRecord {
  std::string name;  // as registered, see dlckpt_member
  int rank = -1;     // -1: one for all ranks
  std::string file;  // "m00003.0007" in the checkpoint's directory
  uint64_t size = 0;
  Hash128 root;               // hash of the blocks as a table
  std::vector<Block> blocks;  // [0, size)
};

struct Manifest {
  CheckpointName name;
  int world_size = 1;
  int64_t created_ms = 0;                 // wall clock of rank 0, Unix milliseconds; for people
  std::string writer;                     // "libdlckpt 0.1.0"
  std::string run_id;                     // of the run that wrote it
  std::vector<FileRecord> files;          // sorted by writer, then part
  std::vector<TensorRecord> tensors;      // sorted by path
  std::vector<BlobRecord> blobs;          // sorted by path, then rank
  std::vector<MemberRecord> members;      // sorted by name, then rank
  std::map<std::string, double> metrics;  // finite

  // nullptr if there is none.
  const TensorRecord* find_tensor(std::string_view path) const;
  uint64_t total_bytes() const;   // of all data files and members
  uint64_t new_bytes() const;     // of those that no earlier save has written
  uint64_t tensor_count() const;  // the packed ones included, whether their indexes have been read or not
  int schema() const;             // the lowest schema that can express it
};

// The text to store, self-checksum included. Packed tensors are left out.
std::string format_manifest(const Manifest& manifest);
// Errors: kCorrupt, kUnsupported (newer schema). Packed tensors are not among what is returned: load_manifest() of
// store/verify.h adds them.
Result<Manifest> parse_manifest(std::string_view text);
// The same without tensors and blobs, for questions about the checkpoint as a whole. The checksum is verified. If the
// text is laid out as by format_manifest(), the tensors are skipped without being parsed, so that even a million of
// them take no longer than reading the text.
Result<Manifest> parse_manifest_outline(std::string_view text);

// The structural checks alone (also made before a manifest is written). kCorrupt or, for boxes that overlap or leave a
// hole, kInvalid.
Status check_manifest(const Manifest& manifest);

}  // namespace dl::ckpt
