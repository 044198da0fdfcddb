// SPDX-License-Identifier: Apache-2.0
// The interface for a level that is not a directory: checkpoints as objects in an object store such as S3. The client
// of an object store implements ObjectLevel. The functions here define, for all object stores alike, what a checkpoint
// is there and when it is committed, and let nothing damaged pass in either direction.
//
//   step-000000001200.0000000700c0ffee/r00000.h5       the files of a checkpoint, as they are in its directory
//   step-000000001200.0000000700c0ffee/MANIFEST.json   the last one: with it the checkpoint exists
//   step-000000001200.0000000700c0ffee/PINNED          if it is pinned, as in its directory; may also come later, or go
//
// An object store has no rename, so the manifest is the commit: an object appears whole or not at all, and the manifest
// is put after all others. Objects without a manifest are what an attempt has left; list_checkpoints() does not show
// them, remove_checkpoint() and retire_objects() take them away, and a second try at the same checkpoint goes on from
// them.
//
// checkpoint/objects has the one client there is, which reaches with rclone whatever rclone reaches. This room knows
// bytes and names only.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/levels/verified_copy.h"
#include "checkpoint/retention/retention.h"
#include "checkpoint/store/io.h"
#include "common/base/result.h"

namespace dl::ckpt {

// One object is used by one thread at a time. Errors: kNotFound, kDenied, kInvalid, kNoSpace, kIo, kUnsupported, and
// what may pass, after which the functions below try again: kBusy, kTimeout.
class ObjectLevel {
 public:
  ObjectLevel() = default;
  ObjectLevel(const ObjectLevel&) = delete;
  ObjectLevel& operator=(const ObjectLevel&) = delete;
  virtual ~ObjectLevel() = default;

  // Returns the next piece of an object, "" at its end. After an error the object must not appear.
  using NextPiece = std::function<Result<std::string_view>()>;
  // Receives bytes in order. An error ends the reading, and is its result.
  using TakePiece = std::function<Status(std::string_view)>;
  struct Object {
    std::string key;
    uint64_t size = 0;
  };

  // Stores an object of `size` bytes under a key such as "step-…/r00000.h5", and replaces an existing one. On success
  // it is durable, and readers see it whole from then on; after an error the key is as it was, or the object does not
  // exist. A client that is killed may leave a part of an object, but never of a manifest.
  virtual Status put(const std::string& key, uint64_t size, const NextPiece& next) = 0;
  // Passes on the bytes [at, at + size) of an object: all of them, or kCorrupt if it ends before.
  virtual Status read(const std::string& key, uint64_t at, uint64_t size, const TakePiece& take) = 0;
  // All objects of a folder such as "step-…", or with "" those of all folders, in any order; none if there is no such
  // folder. No object that was put before the call is missing.
  virtual Result<std::vector<Object>> list(const std::string& folder) = 0;
  // Removes an object; success also if there is none.
  virtual Status erase(const std::string& key) = 0;
  // Removes all objects of a folder.
  virtual Status erase_folder(const std::string& folder) = 0;

  // How often, and after which pause, the functions below try what may pass. The pause doubles each time.
  int tries = 4;
  int64_t pause_ms = 1000;
};

// What is in the object store, each newest first. Its content is not looked at.
struct ObjectListing {
  std::vector<CheckpointName> committed, unfinished;
  std::set<uint64_t> pinned{};  // save ids
};
Result<ObjectListing> list_objects(ObjectLevel& level);
// The committed ones alone.
Result<std::vector<CheckpointName>> list_checkpoints(ObjectLevel& level);
// The manifest of a committed checkpoint. kNotFound, kCorrupt.
Result<Manifest> load_object_manifest(ObjectLevel& level, const CheckpointName& name);

// Is told how many bytes of all have been moved, at least once for each MiB; fewer than before where a file is sent
// anew. May be empty.
using Moved = std::function<void(uint64_t done, uint64_t all)>;

// Sends a checkpoint that is committed in `dir`, with its pin; every block is verified on its way. If it was sent
// before, it is left as it is, and the result is false. Files that a send which was killed has left whole are not sent
// again. kCorrupt: a file is damaged, or the object store holds another checkpoint of that name, which is not touched.
// After another error the checkpoint does not exist there, and nothing of it unless the error may pass.
Result<bool> send_checkpoint(Io& io, const std::string& dir, const CheckpointName& name, ObjectLevel& level,
                             const Moved& moved = {});

// Brings the pins of all checkpoints that both have from `dir` to the store: a pin that the store lacks is put, one
// that was taken away in `dir` (was_unpinned()) is erased, and one of which `dir` says nothing stays. `there` is what
// the store has.
Status send_pins(Io& io, const std::string& dir, ObjectLevel& level, const ObjectListing& there);

// Pins a checkpoint that is committed there; a pin that it has already is replaced. kNotFound: it was removed
// meanwhile, and no pin is left.
Status pin_object(ObjectLevel& level, const CheckpointName& name, const std::string& note);
// Takes its pin back. Success also if it is not pinned.
Status unpin_object(ObjectLevel& level, const CheckpointName& name);

// Copies a checkpoint into `dir`, where it is published, with its pin, only after every byte was verified. If a file is
// damaged in the object store or on its way, the result is kCorrupt, and nothing is published. The caller must hold the
// lease of `dir`.
Status fetch_checkpoint(ObjectLevel& level, const CheckpointName& name, Io& io, const std::string& dir,
                        const Moved& moved = {});

// Removes the manifest first, so that the checkpoint never exists in part.
Status remove_checkpoint(ObjectLevel& level, const CheckpointName& name);

// Removes what decide_retention() does not keep, which never is `newest`, and what killed attempts at older checkpoints
// have left. Pinned is what the store has as such, and what `pinned` says. Returns what it removed, newest first.
Result<std::vector<CheckpointName>> retire_objects(ObjectLevel& level, const RetentionPolicy& policy,
                                                   const CheckpointName& newest,
                                                   const std::function<bool(const CheckpointName&)>& pinned);

}  // namespace dl::ckpt
