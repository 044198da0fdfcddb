// SPDX-License-Identifier: Apache-2.0
// MANIFEST.json lists the parts of a checkpoint. The checkpoint is committed once this file exists durably under a
// published name.
//
// Parsing treats the text as hostile: sizes are bounded, names cannot lead out of the directory, sums cannot overflow,
// boxes lie within shapes and data within files. The result of parse_manifest() needs no further check before it is
// used to read.
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

// Readers accept every schema up to this one. Writers write 1 if nothing of 2 is used (origins, several files of one
// writer, members, metrics), and 2 if nothing of 3 is used (packed tensors).
constexpr int kManifestSchema = 3;
constexpr size_t kMaxMetrics = 1000;
constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxPackedIndexBytes = uint64_t{1} << 30;

// The place in a data file of the packed tensors, which the manifest itself does not list (packed_index.h).
struct PackedRecord {
  uint64_t count = 0;  // number of tensors
  Extent data, index;  // places in the file
};

struct FileRecord {
  uint32_t writer = 0;  // rank; the file's name is format_file_name(writer, part)
  uint32_t part = 0;
  // Set if an earlier save wrote the file, with the identity given here in its user block, and it was linked or copied
  // into this checkpoint because nothing in it has changed since.
  std::optional<CheckpointName> origin;
  uint64_t size = 0;
  Hash128 root;
  Extent table;  // place of the block table in the file, including spare rows
  std::optional<PackedRecord> packed;
  std::vector<Block> blocks;
  std::string name() const { return format_file_name(writer, part); }
};

// A part of a tensor, stored in C order without gaps.
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
  std::vector<ShardRecord> shards;  // disjoint, and together the whole tensor; empty ones may be listed, too
  bool packed = false;              // the index of its file lists it, not the manifest
  uint64_t bytes() const { return volume(shape).value_or(0) * dtype->size; }
};

struct BlobRecord {
  std::string path;
  int rank = -1;  // -1: the same for all ranks
  size_t file = 0;
  std::string h5_path;
  uint64_t at = 0;
  uint64_t size = 0;
};

// A file of the program's own, stored as it is.
struct MemberRecord {
  std::string name;  // the registered name; see dlckpt_member
  int rank = -1;     // -1: the same for all ranks
  std::string file;  // "m00003.0007" in the checkpoint's directory
  uint64_t size = 0;
  Hash128 root;               // hash of the blocks in the form of a table
  std::vector<Block> blocks;  // [0, size)
};

struct Manifest {
  CheckpointName name;
  int world_size = 1;
  int64_t created_ms = 0;                 // rank 0's wall clock, Unix milliseconds; for people
  std::string writer;                     // "libdlckpt 0.1.0"
  std::string run_id;                     // of the run that wrote the checkpoint
  std::vector<FileRecord> files;          // sorted by writer, then part
  std::vector<TensorRecord> tensors;      // sorted by path
  std::vector<BlobRecord> blobs;          // sorted by path, then rank
  std::vector<MemberRecord> members;      // sorted by name, then rank
  std::map<std::string, double> metrics;  // finite

  // nullptr if there is no such tensor.
  const TensorRecord* find_tensor(std::string_view path) const;
  uint64_t total_bytes() const;  // bytes of all data files and members
  uint64_t new_bytes() const;    // bytes of those files that this save wrote itself
  // number of tensors, including packed ones, whether their indexes have been read or not
  uint64_t tensor_count() const;
  int schema() const;  // the lowest schema that can express it
};

// The text to store, including the self-checksum. Packed tensors are left out.
std::string format_manifest(const Manifest& manifest);
// Errors: kCorrupt, kUnsupported (newer schema). The result does not contain packed tensors: load_manifest() of
// store/verify.h adds them.
Result<Manifest> parse_manifest(std::string_view text);
// As parse_manifest(), but without tensors and blobs, for questions about the checkpoint as a whole. The checksum is
// verified. If the text has the layout of format_manifest(), the tensors are skipped without being parsed, so that even
// a million of them take no longer than reading the text.
Result<Manifest> parse_manifest_outline(std::string_view text);

// Only the structural checks, which are also made before a manifest is written. kCorrupt or, for boxes that overlap or
// leave a hole, kInvalid.
Status check_manifest(const Manifest& manifest);

}  // namespace dl::ckpt
