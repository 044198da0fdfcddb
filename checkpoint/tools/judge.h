// SPDX-License-Identifier: Apache-2.0
// Finds all damage of a checkpoint, and which tensors it affects. libdlckpt's own check (store/verify.h) stops at the
// first fault.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/convert/output_file.h"
#include "checkpoint/format/manifest.h"

namespace dl::ckpt::tool {

// What data files and members (files of the program's own) have in common. Members come after the data files.
struct StoredFile {
  std::string name;
  uint64_t size = 0;
  const std::vector<Block>* blocks = nullptr;  // part of the manifest
  const FileRecord* record = nullptr;          // set for a data file; nullptr for a member
};
size_t stored_count(const Manifest& manifest);
StoredFile stored_file(const Manifest& manifest, size_t index);

struct Damage {
  static constexpr size_t kWholeFile = SIZE_MAX;
  size_t file = 0;            // index for stored_file()
  size_t block = kWholeFile;  // index of one of its blocks
  std::string reason;         // "its checksum is wrong"
  // names of tensors and blobs in the damaged part; empty: it only contains metadata of HDF5
  std::vector<std::string> tensors;
};

struct NonFiniteTensor {
  std::string path;
  uint64_t nan = 0, infinite = 0;
};

struct Verdict {
  std::optional<Manifest> manifest;  // none: it cannot be read at all, and `reason` says why
  std::string reason;                // the first fault; empty: the checkpoint is sound
  std::vector<Damage> damage;        // sorted by file and place; the bad blocks of a bad file follow it
  bool sound() const { return reason.empty(); }
};

enum class Depth { kQuick, kFull };  // kQuick: manifest, sizes, user blocks, block tables; kFull: every byte

// Never fails: a file that cannot be read counts as damaged.
Verdict judge(Io& io, const std::string& dir, const CheckpointName& name, Depth depth, const Meter& meter);

// The tensors with NaNs or infinities. Precondition: the checkpoint was judged sound.
Result<std::vector<NonFiniteTensor>> find_non_finite(Io& io, const std::string& checkpoint, const Manifest& manifest,
                                                     const Meter& meter);

// OK if the bytes of this block agree with the manifest; then `buffer` holds them. kCorrupt "its checksum is wrong".
Status read_block(File* file, const Block& block, std::vector<unsigned char>* buffer);

// "r00000.h5, bytes 4096 to 8191: its checksum is wrong (in it: model/w)".
std::string describe(const Manifest& manifest, const Damage& damage);

}  // namespace dl::ckpt::tool
