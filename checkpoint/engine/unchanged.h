// SPDX-License-Identifier: Apache-2.0
// Tensors that do not change from save to save (frozen layers, embeddings, tables) are stored once: in a data file of
// their own, the kept file, to which later checkpoints have a hard link. This file decides which tensors belong into
// it.
//
// No tensor is assumed to be unchanged: before a save leaves one out, its memory is hashed and compared with the stored
// checksums. DLCKPT_FROZEN only makes a tensor a candidate from the first save on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/engine/copy_pool.h"
#include "checkpoint/engine/write_item.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {

constexpr uint32_t kKeptPart = 1;  // r00000.f1.h5
constexpr size_t kNotKept = SIZE_MAX;
constexpr size_t kChanged = SIZE_MAX - 1;

// A file of unchanging tensors that a committed checkpoint has.
struct KeptFile {
  FileRecord record;              // its origin is set
  std::vector<LayoutItem> items;  // the items that have not changed since
  std::vector<uint64_t> at;       // byte offset of each of these items in the file
  uint64_t stored_bytes = 0;      // bytes of all items that were written into it
  std::string path;               // its path in the newest checkpoint that has it
  std::shared_ptr<File> file;     // open, so that it can be copied even after that checkpoint was removed

  // Keeps only the items with these indices (kNotKept among them is ignored), and replaces the indices by the new ones.
  void drop_others(std::vector<size_t>* used);
};

// This rank's kept file in an earlier checkpoint; without items if there is none.
KeptFile find_kept_file(const Manifest& manifest, uint32_t writer);

// Remembers how often tensors have changed between saves. Pure.
class ChangeHistory {
 public:
  // The dataset was saved with this content.
  void saved(const std::string& h5_path, const Hash128& content);
  // The dataset was in the kept file and has changed.
  void surprised(const std::string& h5_path);
  // Whether a tensor should be in the kept file: it is large enough to have blocks of its own, and it was either
  // registered as frozen or unchanged over some saves. Each time that it changes after all, more unchanged saves are
  // needed.
  bool settled(const WriteItem& item) const;

 private:
  struct Entry {
    Hash128 content;
    int same = 0;  // number of saves in a row that found the same content as the one before
    int needed = 2;
    bool surprised = false;
  };
  std::unordered_map<std::string, Entry> entries_;
  // Number of tensors with same >= needed. If it is 0, thousands of lookups are avoided while training waits.
  size_t steady_ = 0;
};

// The file into which an item goes.
enum class Home : unsigned char {
  kMain,  // the file with the tensors that change
  kNew,   // a new kept file
  kKept   // the present kept file, in which the item already is
};

// For each item its index in the kept file if that holds it with the same type, box and content; kChanged if only the
// content differs; otherwise kNotKept. Hashes memory in all threads of the pool; tensors on a device are copied for
// that.
std::vector<size_t> find_unchanged(const KeptFile& kept, const std::vector<WriteItem>& items, CopyPool& pool);

// unchanged: the result of find_unchanged(), without kChanged. kept_bytes: KeptFile::stored_bytes. waited: bytes
// written since the kept file was made only because new items were not in it; the caller keeps the number from call to
// call. The file is made anew when half of it is of no use any more, or when `waited` has reached the bytes that are
// still of use. Pure.
std::vector<Home> choose_homes(const std::vector<WriteItem>& items, const std::vector<size_t>& unchanged,
                               uint64_t kept_bytes, const ChangeHistory& history, uint64_t* waited);

// Puts the kept file at `to`: as a hard link, or as a verified copy if a link is impossible. The directory is not
// fsynced. On error `to` does not exist: kCorrupt (the copied file is damaged), kNoSpace, kDenied, kIo.
Status put_kept_file(Io& io, const KeptFile& kept, const std::string& to);

}  // namespace dl::ckpt
