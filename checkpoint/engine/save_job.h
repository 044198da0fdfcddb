// SPDX-License-Identifier: Apache-2.0
// The bytes of one save on their way from the program's memory to the disk. Two sides work at the same time:
//   copy()   the training loop (in a lazy save a thread of the library) with the copying threads: memory -> staging
//   write()  the background thread: staging -> checksums -> files, fsynced
// Segments pass from one to the other in order. If staging memory is smaller than the state, copy() waits for write().
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/engine/copy_pool.h"
#include "checkpoint/engine/file_image.h"
#include "checkpoint/engine/unchanged.h"
#include "checkpoint/engine/write_queue.h"

namespace dl::ckpt {

class SaveJob {
 public:
  // The place where an item of the save is stored: index into records(), and byte offset.
  struct Place {
    size_t file = 0;
    uint64_t at = 0;
  };

  // The staging memory is borrowed and reset: nothing else may use it until both sides have returned. `kept` is a file
  // of an earlier checkpoint that becomes part of this one as well, after the images' files.
  SaveJob(Staging& staging, std::vector<FileImage> images, std::optional<KeptFile> kept, std::vector<Place> places);

  // Waits for what the program has queued on the devices; write() reports an error. To be called before copy() and by
  // the thread that saves, since a wait ends the capture of a CUDA graph, which the program may begin when its call
  // returns.
  void wait_for_devices();
  // Returns when everything is copied, or when write() has failed.
  void copy(CopyPool& pool);
  // Waits until copy() has returned. Another thread must have called copy(), or call it later.
  void wait_copied();

  // The files' names are made from the identity's writer and the images' parts. `slot` is a folder with files of the
  // same names that may be overwritten in place (engine/slot.h), or empty. On success all files are durable and
  // records() describes them; on error they are removed. To be called once; it returns only when copy() no longer needs
  // the staging memory.
  Status write(Io& io, WriteQueue& queue, const std::string& directory, const FileIdentity& identity,
               const std::string& slot = std::string());
  // To be called instead of write() if nothing is to be written.
  void abandon();

  const std::vector<FileImage>& images() const { return images_; }
  const std::vector<FileRecord>& records() const { return records_; }
  const std::vector<Place>& places() const { return places_; }
  uint64_t file_bytes() const;    // bytes of the images' files
  uint64_t reused_bytes() const;  // bytes of the items in the kept file

  // Durations; zero for parts that have not ended yet. Any thread may read them.
  struct Times {
    double copy_s = 0, write_s = 0, fsync_s = 0;
  };
  Times times() const;

 private:
  struct Segment {
    size_t image;
    uint64_t index;
    unsigned char* buffer = nullptr;  // set when the segment is copied
  };
  void copy_some();
  unsigned char* await_copied(size_t segment);
  Status add_kept_file(Io& io, const std::string& directory, const FileIdentity& identity);
  Status open_files(Io& io, const std::string& directory, const FileIdentity& identity, const std::string& slot);
  Status open_file(Io& io, const std::string& path, uint64_t recycled);
  void write_segments(WriteQueue& queue);
  Status finish_files(const FileIdentity& identity);

  Staging& staging_;
  std::vector<FileImage> images_;
  std::optional<KeptFile> kept_;
  std::vector<Place> places_;
  std::vector<Segment> segments_;
  // segments must take buffers in their order, since later segments could otherwise hold all of them
  std::mutex order_mutex_;
  size_t next_segment_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool copying_done_ = false;
  Status copy_status_;
  Times times_;

  std::vector<std::unique_ptr<DirectOutput>> files_;
  std::vector<uint64_t> found_sizes_;  // sizes that the files had when they were opened
  std::vector<FileRecord> records_;
  std::string kept_path_;  // path where the kept file was put, or empty
};

}  // namespace dl::ckpt
