// SPDX-License-Identifier: Apache-2.0
// Rank 0 sends the checkpoints that it has published to an object store (objects=), beside the next train steps: one at
// a time, and of those that wait only the newest. A failure is counted and told once, by
// the next call that takes the warning; it never reaches a save. What is not in the store when the directory is closed
// is told by unsent().
//
// Threads: any thread may call all functions; a thread of this object does the work.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "checkpoint/client/object_program.h"
#include "checkpoint/format/names.h"
#include "checkpoint/retention/retention.h"
#include "checkpoint/store/quiet_thread.h"
#include "common/base/result.h"

namespace dl::ckpt {

struct SendStats {
  int64_t step = -1;  // the last train step that is in the store; -1: none yet
  uint64_t sent = 0, failed = 0;
};

class ObjectSender {
 public:
  // dir: the checkpoint directory; place: NAME:PATH; policy: what is kept there. Looks for the program, and copies the
  // environment that it will get.
  ObjectSender(std::string dir, std::string place, RetentionPolicy policy);
  // Ends a sending that still runs: nothing is committed then. Must not be called in a child of fork().
  ~ObjectSender();
  ObjectSender(const ObjectSender&) = delete;
  ObjectSender& operator=(const ObjectSender&) = delete;

  // Takes the place for this directory: kInvalid if another sender of this process has it, since each would restore and
  // remove the other's checkpoints. Asks the installed dlckpt whether it can be used: kInvalid with its sentence. Asks
  // no server.
  Status open();
  // The program that was given to the constructor; kUnsupported if open() has not found it.
  const Result<ObjectProgram>& program() const { return program_; }
  // A checkpoint is published, and waits to be sent, in place of the one that waited.
  void offer(const CheckpointName& name);
  // The save ids of the checkpoints that wait or are being sent, which must not be retired.
  std::set<uint64_t> held() const;
  // False if something waits or is being sent after this time.
  bool wait_for(double seconds);
  // Grows while bytes move to the store.
  uint64_t moved() const;
  // One sentence if the newest checkpoint that was offered is not in the store; else "". why: what ended the wait for
  // it, if it still waits or is being sent.
  std::string unsent(const std::string& why) const;
  SendStats stats() const;
  // What has to be said about failures since the last call, once for failures in a row; "" if there is nothing.
  std::string take_warning();

 private:
  void work();
  Status send(const CheckpointName& name);

  const std::string dir_, place_;
  const RetentionPolicy policy_;
  const Result<ObjectProgram> program_;
  bool has_place_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<CheckpointName> waiting_, running_;
  std::optional<CheckpointName> unsent_;  // the newest that was offered, until it is in the store
  std::string failure_;                   // why unsent_ was not sent; "" as long as that is tried
  uint64_t moved_ = 0;
  SendStats stats_;
  std::string warning_;
  bool failing_ = false, end_ = false;
  QuietThread thread_;
};

}  // namespace dl::ckpt
