// SPDX-License-Identifier: Apache-2.0
// Copies whole files of a checkpoint from one level to another, or back to the program. Every block's checksum is
// checked on the way, so damage at one level never reaches the next.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/file.h"
#include "common/base/result.h"

namespace dl::ckpt {

// A file of a checkpoint, data file or member, as its manifest describes it.
struct StoredFile {
  std::string name;
  uint64_t size = 0;
  const std::vector<Block>* blocks = nullptr;  // in the manifest, which must outlive this
  size_t data_file = SIZE_MAX;                 // index into Manifest::files, or SIZE_MAX: a member
  uint32_t writer = 0;                         // rank that wrote it
};
// All of them, data files first, in the manifest's order.
std::vector<StoredFile> stored_files(const Manifest& manifest);

// Makes `to`, which must not exist, a copy of `from`; past the page cache where the file system allows it; fsynced. On
// error `to` is removed. kCorrupt (nothing wrong with `to`: another level may have better), kNotFound, kNoSpace, kIo.
Status copy_verified(Io& io, const std::string& from, const std::string& to, const StoredFile& file);

// The same of a file that is open already; its size is not checked.
Status copy_verified(Io& io, File* source, const std::string& to, const StoredFile& file);

// If the file was written by an earlier save (FileRecord::origin) and one of the newest checkpoints of `dir` has it:
// makes `to` a second name for it. False if it could not be done; then `to` is not there.
bool link_from_earlier(Io& io, const std::string& dir, const Manifest& manifest, const StoredFile& file,
                       const std::string& to);

// Reads all of a file that is in a checkpoint's directory, and checks it. As verify_checkpoint() does for all.
Status verify_stored_file(Io& io, const std::string& checkpoint, const Manifest& manifest, const StoredFile& file);

}  // namespace dl::ckpt
