// SPDX-License-Identifier: Apache-2.0
// The ranks of one run, as far as a save or a restore needs them: everybody tells rank 0 something, and rank 0 tells
// everybody something. All ranks make the same calls in the same order; messages are small (kilobytes per shard).
// A transport is one implementation; there is one that needs nothing but the checkpoint directory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/store/io.h"
#include "common/base/result.h"

namespace dl::ckpt {

class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Begins a collective operation; every rank does. A rank that gave up in the midst of the last one is back in step.
  virtual void start() = 0;
  // Instead of start(), by a rank that gave up in the last operation and wants it still.
  virtual void again() = 0;
  // On rank 0: what every rank said, by rank. On the others: empty. kTimeout (naming ranks that are missing), kIo.
  virtual Result<std::vector<std::string>> gather(std::string mine) = 0;
  // On all ranks: what rank 0 said. `mine` counts on rank 0 alone. `patience` multiplies the timeout, where rank 0
  // itself has to wait for others first. kTimeout, kIo.
  virtual Result<std::string> broadcast(std::string mine, double patience) = 0;
  // Random bytes that only the ranks of this run know, the same on all. kUnsupported where they cannot be kept private.
  // Local, but waits for the others the first time. Other errors as above.
  virtual Result<std::string> secret() { return Error{Errc::kUnsupported, "these ranks have no secret"}; }
};

// One rank: nothing to do.
std::unique_ptr<Group> make_single_group();

// Messages are files in DIR/.run-<hash of run_id>/. The first call joins: each rank leaves a hello with a random number
// of its own, and goes on only with a welcome that repeats it; so files of an earlier run with the same run id do no
// harm. Nothing is fsynced: messages need not survive a crash. The last rank to close removes the folder.
std::unique_ptr<Group> make_file_group(Io& io, std::string dir, std::string run_id, int rank, int size,
                                       double timeout_s);
// Name of that folder within DIR.
std::string run_folder(const std::string& run_id);

}  // namespace dl::ckpt
