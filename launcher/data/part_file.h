// SPDX-License-Identifier: Apache-2.0
// A large file while it is fetched: chunks of kChunkBytes arrive in any order, from several threads, and a journal
// beside it tells which are there, so that a fetch that was killed goes on where it was.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/data/digest.h"

namespace dl::data {

// Text that is another one after each boot of this machine.
std::string boot_mark();

// What a journal tells. Pure.
struct Journal {
  bool known = false;                               // it is one of a file of this size
  bool same_boot = false;                           // and was begun in this boot
  std::vector<std::pair<size_t, uint64_t>> chunks;  // with their hashes, in the order in which they came
};
// boot: boot_mark(). A line that is cut, or names no chunk of such a file, is passed over.
Journal parse_journal(std::string_view text, uint64_t size, std::string_view boot);
// The first line of a journal, and the line of a chunk.
std::string journal_head(uint64_t size, std::string_view boot);
std::string journal_line(size_t chunk, uint64_t hash);

class PartFile {
 public:
  // Opens or makes PATH and PATH.journal. The journal holds a hash of each chunk. In the boot in which it was written a
  // chunk that it names is there, since a killed process loses nothing that it has written; after another boot each
  // chunk is read and compared. A journal of another size, or a damaged one, is not believed. kNoSpace, kIo.
  static Result<PartFile> open(const std::string& path, uint64_t size);
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;

  size_t chunks() const { return have_.size(); }
  uint64_t offset_of(size_t chunk) const { return chunk * kChunkBytes; }
  uint64_t size_of(size_t chunk) const;
  bool has(size_t chunk) const { return have_[chunk]; }
  uint64_t bytes_there() const;

  // Writes a part of a chunk that is not there yet. Any thread, different places.
  Status write(uint64_t offset, std::string_view data);
  // All of a chunk was written: notes it in the journal. Any thread. The kernel is asked to begin writing it to the
  // disk.
  Status finished(size_t chunk, uint64_t hash);
  bool complete() const;
  // Precondition for both: complete(). The checksum of the whole (fast_sum()).
  std::string sum() const;
  int fd() const { return fd_.get(); }
  // Forgets all chunks: what was fetched has proved wrong.
  Status begin_again();
  // Gives the file its time and mode, moves it to `place`, and removes the journal.
  Status move_to(const std::string& place, int64_t mtime_ns, bool executable);

 private:
  PartFile(std::string path, uint64_t size);
  Status new_journal();
  Status read_journal();
  // Whether the chunk's bytes on the disk have this hash.
  bool verified(size_t chunk, uint64_t hash, std::vector<char>* buffer) const;

  std::string path_;
  uint64_t size_ = 0;
  UniqueFd fd_, journal_;
  mutable std::mutex mutex_;
  std::vector<bool> have_;
  std::vector<uint64_t> hashes_;
};

}  // namespace dl::data
