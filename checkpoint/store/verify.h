// SPDX-License-Identifier: Apache-2.0
// Judging a checkpoint: manifest, sizes, user blocks, block tables, and every block's checksum. Needs no libhdf5, so it
// cannot be led astray by a damaged HDF5 file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {

// Reads and checks MANIFEST.json of a published checkpoint; its save id and train step must be those of the directory's
// name. kCorrupt, kUnsupported, kNotFound, kDenied, kIo.
// Packed tensors are read from the data files, whose heads and the blocks in question are verified for that.
Result<Manifest> load_manifest(Io& io, const std::string& dir, const CheckpointName& name);

// MANIFEST.json alone, without packed tensors: for when data files are missing or not needed.
Result<Manifest> load_stored_manifest(Io& io, const std::string& dir, const CheckpointName& name);

// The same by parse_manifest_outline(): without tensors and blobs.
Result<Manifest> load_outline(Io& io, const std::string& dir, const CheckpointName& name);

// Whether all data files and members are there and have their size. Reads nothing of them. kCorrupt, kDenied, kIo.
Status check_files(Io& io, const std::string& checkpoint, const Manifest& manifest);

// Whether the file at `path` is the one that `record` tells of, written by the save `by`: size, user block and block
// table; its data are not read. kCorrupt, kNotFound, kDenied, kIo.
Status check_head(Io& io, const std::string& path, const CheckpointName& by, const FileRecord& record);

// A data file whose size, user block and block table were found to be what the manifest says.
class DataFile {
 public:
  static Result<DataFile> open(Io& io, const std::string& checkpoint, const Manifest& manifest, size_t index);
  // The bytes of block `index` of the manifest's list, verified. The pointer is valid until the next call; reading the
  // same block again costs nothing. kCorrupt if the checksum is wrong.
  Result<const unsigned char*> read_block(size_t index);
  const FileRecord& record() const { return *record_; }
  const std::string& path() const { return file_.path(); }

 private:
  DataFile(File file, const FileRecord* record) : file_(std::move(file)), record_(record) {}
  File file_;
  const FileRecord* record_;  // in the manifest, which must outlive this
  std::vector<unsigned char> buffer_;
  size_t held_ = SIZE_MAX;
};

// Called now and then with the bytes done and the bytes in all; returns false to stop (the error is kTimeout then).
using Progress = std::function<bool(uint64_t done, uint64_t total)>;

// Everything, and the first fault as kCorrupt (file, and where in it). The manifest on success.
Result<Manifest> verify_checkpoint(Io& io, const std::string& dir, const CheckpointName& name,
                                   const Progress& progress = nullptr);

}  // namespace dl::ckpt
