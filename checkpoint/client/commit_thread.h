// SPDX-License-Identifier: Apache-2.0
// The background thread and its Committer. when_idle() is the only access to the Committer, and waits until no save is
// in flight, so that the training thread and the background thread never use it at the same time. The reference that it
// returns is valid until the next begin().
#pragma once

#include <memory>
#include <optional>

#include "checkpoint/client/committer.h"
#include "checkpoint/client/save_request.h"
#include "checkpoint/engine/worker.h"
#include "checkpoint/store/io.h"

namespace dl::ckpt {

class CommitThread {
 public:
  // io is borrowed and must outlive this object.
  CommitThread(Io& io, std::unique_ptr<Committer> committer);

  // Waits for the save in flight, if there is one.
  Committer& when_idle();
  // Starts a save. Precondition: no save is in flight. The caller has to make sure that the job's copy() is called. kIo
  // if no thread can be started; the save has then failed with this error.
  Status begin(SaveRequest request);
  // Waits for the save in flight. Returns the outcome of the last save that was begun, once; after that nullopt.
  std::optional<SaveOutcome> take_outcome();

  bool busy() const { return worker_.busy(); }
  void wait() { worker_.wait(); }
  // False if a save is still in flight after this time.
  bool wait_for(double seconds) { return worker_.wait_for(seconds); }

 private:
  Io& io_;
  // belongs to the background thread while worker_ is busy, as does the next member:
  std::unique_ptr<Committer> committer_;
  std::optional<SaveOutcome> outcome_;
  Worker worker_;  // last member, so that it is destroyed first
};

}  // namespace dl::ckpt
