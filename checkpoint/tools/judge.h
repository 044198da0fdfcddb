// SPDX-License-Identifier: Apache-2.0
// Judges a checkpoint: finds all its damage, and which tensors lie there. libdlckpt's own check (store/verify.h) stops
// at the first fault.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/convert/output_file.h"
#include "checkpoint/format/manifest.h"

namespace dl::ckpt::tool {

// A data file or, behind these, a member (a file of the program's own): what both have.
struct StoredFile {
  std::string name;
  uint64_t size = 0;
  const std::vector<Block>* blocks = nullptr;  // in the manifest
  const FileRecord* record = nullptr;          // of a data file; nullptr for a member
};
size_t stored_count(const Manifest& manifest);
StoredFile stored_file(const Manifest& manifest, size_t index);

struct Damage {
  static constexpr size_t kWholeFile = SIZE_MAX;
  size_t file = 0;                   // for stored_file()
  size_t block = kWholeFile;         // index into its blocks
  std::string reason;                // "its checksum is wrong"
  std::vector<std::string> tensors;  // names of tensors and blobs that lie in it; empty: only metadata of HDF5
};

struct NonFiniteTensor {
  std::string path;
  uint64_t nan = 0, infinite = 0;
};

struct Verdict {
  std::optional<Manifest> manifest;  // none: it cannot be read at all, `reason` says why
  std::string reason;                // the first fault, empty if sound
  std::vector<Damage> damage;        // by file and place; where a whole file is bad, its bad blocks follow
  bool sound() const { return reason.empty(); }
};

enum class Depth { kQuick, kFull };  // kQuick: manifest, sizes, user blocks, block tables; kFull: every byte

// Never fails: a file that cannot be read counts as damaged.
Verdict judge(Io& io, const std::string& dir, const CheckpointName& name, Depth depth, const Meter& meter);

// Tensors with NaNs or infinities. Precondition: the manifest's checkpoint was judged sound.
Result<std::vector<NonFiniteTensor>> find_non_finite(Io& io, const std::string& checkpoint, const Manifest& manifest,
                                                     const Meter& meter);

// OK if the bytes of this block are what the manifest says; kCorrupt "its checksum is wrong". `buffer` holds them then.
Status read_block(File* file, const Block& block, std::vector<unsigned char>* buffer);

// "r00000.h5, bytes 4096 to 8191: its checksum is wrong (in it: model/w)"
std::string describe(const Manifest& manifest, const Damage& damage);

}  // namespace dl::ckpt::tool
