// SPDX-License-Identifier: Apache-2.0
// The interface for a level that is not a directory: checkpoints as objects in an object store such as S3. The client
// of an object store implements ObjectLevel. The functions here define, for all object stores alike, what a checkpoint
// is there and when it is committed, and let nothing damaged pass in either direction.
//
//   step-000000001200.0000000700c0ffee/r00000.h5       the files of a checkpoint, as they are in its directory
//   step-000000001200.0000000700c0ffee/MANIFEST.json   the last one: with it the checkpoint exists
//
// An object store has no rename, so the manifest is the commit: an object appears whole or not at all, and the manifest
// is put after all others. Objects without a manifest are what an attempt has left; list_checkpoints() does not show
// them, and remove_checkpoint() takes them away.
//
// No object store is supported yet, and no option leads here: a client of S3, with its credentials, has still to be
// written. It then needs
//   - a class for its object store, in a room that may use the client; this room knows bytes and names only
//   - in client/save_levels.cpp, send_checkpoint() by rank 0 after the checkpoint is published, beside the next
//     train steps; or send_file() by each rank for its own files, a barrier, and commit_checkpoint() by rank 0
//   - in client/restore.cpp, fetch_checkpoint() before the restore where the object store has a newer checkpoint than
//     the directory, as Levels::recover() does for what the nodes have
//   - in retention, remove_checkpoint() for what is retired
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/levels/verified_copy.h"
#include "checkpoint/store/io.h"
#include "common/base/result.h"

namespace dl::ckpt {

// One object is used by one thread at a time. Errors: kNotFound, kDenied, kNoSpace, kTimeout, kIo (after the client's
// own retries).
class ObjectLevel {
 public:
  ObjectLevel() = default;
  ObjectLevel(const ObjectLevel&) = delete;
  ObjectLevel& operator=(const ObjectLevel&) = delete;
  virtual ~ObjectLevel() = default;

  // Returns the next piece of an object, "" at its end. After an error the object must not appear.
  using NextPiece = std::function<Result<std::string_view>()>;

  // Stores an object of `size` bytes under a key such as "step-…/r00000.h5", and replaces an existing one. On success
  // it is durable, and readers see it whole from then on; after an error the key is as it was, or the object does not
  // exist.
  virtual Status put(const std::string& key, uint64_t size, const NextPiece& next) = 0;
  // Reads the bytes [at, at + size) of an object: all of them, or kCorrupt if it ends before.
  virtual Status read(const std::string& key, uint64_t at, size_t size, void* buffer) = 0;
  // The size of an object in bytes. kNotFound.
  virtual Result<uint64_t> size(const std::string& key) = 0;
  // All keys with this prefix, in any order. No object that was put before the call is missing.
  virtual Result<std::vector<std::string>> keys(const std::string& prefix) = 0;
  // Removes an object; success also if there is none.
  virtual Status erase(const std::string& key) = 0;
};

// The checkpoints that are committed in the object store, newest first. Their content is not looked at.
Result<std::vector<CheckpointName>> list_checkpoints(ObjectLevel& level);

// Sends one file of a checkpoint that is committed in `dir`; every block is verified on its way. kCorrupt: the file is
// damaged.
Status send_file(Io& io, const std::string& dir, const Manifest& manifest, const StoredFile& file, ObjectLevel& level);
// Commits the checkpoint after all files are there; it checks their sizes first. `text` is that of the manifest in the
// directory.
Status commit_checkpoint(const Manifest& manifest, const std::string& text, ObjectLevel& level);
// Sends the whole checkpoint. If it was sent before, it is left as it is. kCorrupt if the object store holds another
// checkpoint of that name, which is not touched. After another error the checkpoint does not exist there.
Status send_checkpoint(Io& io, const std::string& dir, const CheckpointName& name, ObjectLevel& level);

// Copies a checkpoint into `dir`, where it is published only after every byte was verified. If a file is damaged in the
// object store or on its way, the result is kCorrupt, and nothing is published. The caller must hold the lease
// of `dir`.
Status fetch_checkpoint(ObjectLevel& level, const CheckpointName& name, Io& io, const std::string& dir);

// Removes the manifest first, so that the checkpoint never exists in part.
Status remove_checkpoint(ObjectLevel& level, const CheckpointName& name);

}  // namespace dl::ckpt
