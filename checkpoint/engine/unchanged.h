// SPDX-License-Identifier: Apache-2.0
// What does not change from save to save (frozen layers, embeddings, tables) is stored once: in a data file of its own,
// which later checkpoints have under a second name (a hard link). Here: which tensors belong into it.
//
// Nobody is believed: before a tensor is left out of a save, its memory is hashed and compared with the checksums of
// what is stored. DLCKPT_FROZEN only says where to begin.
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

// What an earlier checkpoint has of this rank in such a file; empty items: nothing.
KeptFile find_kept_file(const Manifest& manifest, uint32_t writer);

// How often tensors change, as far as saves tell. Pure.
class ChangeHistory {
 public:
  // It was saved with this content.
  void saved(const std::string& h5_path, const Hash128& content);
  // It was in the file of what does not change, and has changed.
  void surprised(const std::string& h5_path);
  // Whether it should be in that file: large enough to have blocks of its own, and expected not to change by whoever
  // registered it, or unchanged over some saves; the more often it surprised us, the more.
  bool settled(const WriteItem& item) const;

 private:
  struct Entry {
    Hash128 content;
    int same = 0;  // saves in a row that found the content of the one before
    int needed = 2;
    bool surprised = false;
  };
  std::unordered_map<std::string, Entry> entries_;
  // With same >= needed. Where there is none, thousands of lookups are saved in the time that training waits.
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
