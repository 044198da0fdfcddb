// SPDX-License-Identifier: Apache-2.0
// A set while it is fetched, in a folder of its own: files that are complete (tree/), large ones in part (parts/), what
// a helper program writes (incoming/). A fetch that was killed at any moment goes on with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/data/manifest.h"
#include "launcher/data/part_file.h"
#include "launcher/data/progress.h"

namespace dl::data {

// Functions for different entries may be called from several threads at once. Errors: those of local_error().
class Work {
 public:
  // Opens or makes the folder, with all folders of the manifest, and finds out what is there: a file counts if it has
  // the size and the time that a complete one gets last; after another boot of the machine only if its content has the
  // checksum that was noted, too. What is found is counted as resumed. The manifest must outlive this object.
  static Result<std::unique_ptr<Work>> open(const std::string& folder, const Manifest& manifest, Counts* counts);

  bool has(size_t entry) const { return state_[entry] != 0; }
  std::string tree() const { return folder_ + "/tree"; }
  std::string incoming() const { return folder_ + "/incoming"; }
  // A file for the names that the helper is told.
  std::string names() const { return incoming() + ".names"; }

  // The bytes for which there is no room yet: of files that are neither there nor begun as a large one.
  uint64_t without_room() const;

  // A file's whole content; it is not compared with a checksum of the entry.
  Status put(size_t entry, std::string_view data);
  // Moves a file here that lies on the same file system. kCorrupt if it has another size or checksum than the entry;
  // its checksum is compared only if `compare`.
  Status take(size_t entry, const std::string& path, bool compare);
  // A second link to the same file in another set. False if that cannot be, or if it is not intact there.
  bool link(size_t entry, int from_tree, const std::string& sum);
  // A large file in chunks; then its end. kCorrupt if its checksum is wrong: its chunks are forgotten.
  Result<PartFile> part(size_t entry) const;
  Status finish_part(size_t entry, PartFile* part);

  // All files are there: writes the manifest, makes the folders read-only, and removes what only a fetch needs.
  // durable: returns when all of it is on the disk.
  Status finish(bool durable);

 private:
  Work(std::string folder, const Manifest& manifest, Counts* counts);
  Status make_folders();
  Status look();
  Status look_at_one(size_t entry, bool same_boot, const std::string& noted);
  Status note(size_t entry, const std::string& sum);
  Status flush_notes();
  std::string part_path(size_t entry) const;
  void arrived(size_t entry, const std::string& sum);

  const std::string folder_;
  const Manifest& manifest_;
  Counts* const counts_;
  UniqueFd tree_fd_, notes_;
  std::vector<char> state_;        // 1: there
  std::vector<std::string> sums_;  // fast_sum() of those that are there
  std::mutex mutex_;               // of waiting_ and notes_
  std::string waiting_;            // notes that are not written yet
};

// Those files of a set's tree that are not as they were written: missing, or with another size or time. Several
// threads.
std::vector<size_t> damaged(const std::string& tree, const Manifest& manifest);

}  // namespace dl::data
