// SPDX-License-Identifier: Apache-2.0
// Verifies a checkpoint: manifest, sizes, user blocks, block tables, and the checksum of every block. It needs no
// libhdf5, so a damaged HDF5 file cannot mislead it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {

// Reads and checks MANIFEST.json of a published checkpoint; its save id and train step must be those of the directory's
// name. kCorrupt, kUnsupported, kNotFound, kDenied, kIo. Packed tensors are read from the data files, whose heads and
// the blocks concerned are verified for that.
Result<Manifest> load_manifest(Io& io, const std::string& dir, const CheckpointName& name);

// Reads only MANIFEST.json, without packed tensors: for cases in which data files are missing or not needed.
Result<Manifest> load_stored_manifest(Io& io, const std::string& dir, const CheckpointName& name);

// The same with parse_manifest_outline(): without tensors and blobs.
Result<Manifest> load_outline(Io& io, const std::string& dir, const CheckpointName& name);

// Whether all data files and members exist and have their size. It reads no file. kCorrupt, kDenied, kIo.
Status check_files(Io& io, const std::string& checkpoint, const Manifest& manifest);

// Whether the file at `path` is the one that `record` describes, written by the save `by`: it checks size, user block
// and block table, but does not read the data. kCorrupt, kNotFound, kDenied, kIo.
Status check_head(Io& io, const std::string& path, const CheckpointName& by, const FileRecord& record);

// A data file whose size, user block and block table agree with the manifest.
class DataFile {
 public:
  // Opens file number `index` of the manifest, which must outlive the result, and checks its size, user block and block
  // table. checkpoint: path of the checkpoint. kCorrupt (also if the file is missing), kUnsupported (newer format),
  // kDenied, kIo.
  static Result<DataFile> open(Io& io, const std::string& checkpoint, const Manifest& manifest, size_t index);
  // The bytes of block `index` in the manifest's list, verified. The pointer is valid until the next call; reading the
  // same block again costs nothing. kCorrupt if the checksum is wrong.
  Result<const unsigned char*> read_block(size_t index);
  const FileRecord& record() const { return *record_; }
  const std::string& path() const { return file_.path(); }

 private:
  DataFile(File file, const FileRecord* record) : file_(std::move(file)), record_(record) {}
  File file_;
  const FileRecord* record_;  // part of the manifest, which must outlive this object
  std::vector<unsigned char> buffer_;
  size_t held_ = SIZE_MAX;
};

// Called now and then with the number of bytes done and in total; if it returns false, the work stops with the error
// kTimeout.
using Progress = std::function<bool(uint64_t done, uint64_t total)>;

// Verifies everything. Returns the manifest, or the first fault as kCorrupt (with the file, and the place in it).
Result<Manifest> verify_checkpoint(Io& io, const std::string& dir, const CheckpointName& name,
                                   const Progress& progress = nullptr);

}  // namespace dl::ckpt
