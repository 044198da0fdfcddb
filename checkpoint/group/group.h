// SPDX-License-Identifier: Apache-2.0
// Messages between the ranks of one run, in the two forms that saves and restores need: from every rank to rank 0, and
// from rank 0 to every rank. All ranks make the same calls in the same order; messages are small (kilobytes per shard).
// The present implementation needs nothing but the checkpoint directory.
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
  // Every rank calls this at the beginning of a collective operation. A rank that gave up during the last operation
  // takes part again.
  virtual void start() = 0;
  // A rank that gave up during the last operation and now repeats it calls this instead of start().
  virtual void again() = 0;
  // Returns, on rank 0, the messages of all ranks, by rank; on the others nothing. kTimeout (which names the ranks that
  // are missing), kIo.
  virtual Result<std::vector<std::string>> gather(std::string mine) = 0;
  // Returns rank 0's message on all ranks; `mine` is ignored on the others. The timeout is multiplied by `patience`, in
  // case rank 0 itself has to wait for others first. kTimeout, kIo.
  virtual Result<std::string> broadcast(std::string mine, double patience) = 0;
  // Random bytes, the same on all ranks of this run and known only to them. kUnsupported if they cannot be kept
  // private. Not collective, but the first call waits for the other ranks. Other errors as above.
  virtual Result<std::string> secret() { return Error{Errc::kUnsupported, "these ranks have no secret"}; }
};

// For a single rank: there is nothing to do.
std::unique_ptr<Group> make_single_group();

// Messages are files in DIR/.run-<hash of run_id>/. The first call joins the group: each rank writes a hello with a
// random number of its own, and goes on only when a welcome repeats this number; so files of an earlier run with the
// same run id do no harm. Nothing is fsynced, since messages need not survive a crash. The last rank that closes
// removes the folder.
std::unique_ptr<Group> make_file_group(Io& io, std::string dir, std::string run_id, int rank, int size,
                                       double timeout_s);
// The name of that folder within DIR.
std::string run_folder(const std::string& run_id);

}  // namespace dl::ckpt
