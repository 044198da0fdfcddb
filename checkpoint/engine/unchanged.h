// SPDX-License-Identifier: Apache-2.0
// Tensors that do not change from save to save (frozen layers, embeddings, tables) are stored once: in a data file of
// their own, the kept file, to which later checkpoints have a hard link. This file decides which tensors belong into
// it.
//
// Nothing is assumed to be unchanged: before a save leaves a tensor out, its memory is hashed and compared with the
// stored checksums. DLCKPT_FROZEN only makes a tensor a candidate from the first save on.
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
  FileRecord record;              // with its origin
  std::vector<LayoutItem> items;  // that have not changed since
  std::vector<uint64_t> at;       // byte offset of each in the file
  uint64_t stored_bytes = 0;      // of all items that were written into it
  std::string path;               // in the newest checkpoint that has it
  std::shared_ptr<File> file;     // open, so that it can be copied even when that checkpoint has been removed

  // Keeps only the items with these indices (kNotKept among them is passed over), and makes the indices the new ones.
  void drop_others(std::vector<size_t>* used);
};

// This rank's kept file in an earlier checkpoint; without items if there is none.
KeptFile find_kept_file(const Manifest& manifest, uint32_t writer);

// Remembers how often tensors have changed between saves. Pure.
class ChangeHistory {
 public:
  // It was saved with this content.
  void saved(const std::string& h5_path, const Hash128& content);
  // It was in the file of what does not change, and has changed.
  void surprised(const std::string& h5_path);
  // Whether a tensor should be in the kept file: it is large enough to have blocks of its own, and either it was
  // registered as frozen or it was unchanged over some saves. Each time that it changed after all, more unchanged saves
  // are needed.
  bool settled(const WriteItem& item) const;

 private:
  struct Entry {
    Hash128 content;
    int same = 0;  // saves in a row that found the content of the one before
    int needed = 2;
    bool surprised = false;
  };
  std::unordered_map<std::string, Entry> entries_;
  // Number of tensors with same >= needed. If it is 0, thousands of lookups are saved while training waits.
  size_t steady_ = 0;
};

// Where the items of a save go.
enum class Home : unsigned char {
  kMain,  // the file with what changes
  kNew,   // a new file of what does not
  kKept   // stays in the kept file
};

// For each item its index in the kept file, if that holds it with the same type, box and content; kChanged if only the
// content differs; else kNotKept. Hashes memory in all threads of the pool; what lies on a device is copied for that.
std::vector<size_t> find_unchanged(const KeptFile& kept, const std::vector<WriteItem>& items, CopyPool& pool);

// unchanged: find_unchanged()'s, without kChanged. kept_bytes: KeptFile::stored_bytes. waited: bytes written since that
// file was made only because new items were not in it; to be kept from call to call. The file is made anew when half of
// it is of no use any more, or when waiting has cost as much as that. Pure.
std::vector<Home> choose_homes(const std::vector<WriteItem>& items, const std::vector<size_t>& unchanged,
                               uint64_t kept_bytes, const ChangeHistory& history, uint64_t* waited);

// Puts the kept file at `to`: as a hard link, or as a verified copy where there can be none. The directory is not
// fsynced. On error `to` is not there: kCorrupt (the copied file is damaged), kNoSpace, kDenied, kIo.
Status put_kept_file(Io& io, const KeptFile& kept, const std::string& to);

}  // namespace dl::ckpt
