// SPDX-License-Identifier: Apache-2.0
// Copies whole files of a checkpoint from one level to another, or back to the program. The checksum of every block is
// checked on the way, so that damage at one level never reaches the next.
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
  const std::vector<Block>* blocks = nullptr;  // part of the manifest, which must outlive this object
  size_t data_file = SIZE_MAX;                 // index into Manifest::files; SIZE_MAX: it is a member
  uint32_t writer = 0;                         // the rank that wrote it
};
// All files of the checkpoint, data files first, in the manifest's order.
std::vector<StoredFile> stored_files(const Manifest& manifest);

// Makes `to`, which must not exist, a copy of `from`, and fsyncs it; past the page cache if the file system allows it.
// On error `to` is removed. kCorrupt (`from` is damaged; another level may have a good copy), kNotFound, kNoSpace, kIo.
Status copy_verified(Io& io, const std::string& from, const std::string& to, const StoredFile& file);

// As above, for a file that is open already; its size is not checked.
Status copy_verified(Io& io, File* source, const std::string& to, const StoredFile& file);

// If an earlier save wrote the file (FileRecord::origin) and one of the newest checkpoints of `dir` has it, makes `to`
// a hard link to it. False if that was impossible; then `to` does not exist.
bool link_from_earlier(Io& io, const std::string& dir, const Manifest& manifest, const StoredFile& file,
                       const std::string& to);

// Reads and checks the whole of one file in a checkpoint's directory, as verify_checkpoint() does for all files.
Status verify_stored_file(Io& io, const std::string& checkpoint, const Manifest& manifest, const StoredFile& file);

}  // namespace dl::ckpt
