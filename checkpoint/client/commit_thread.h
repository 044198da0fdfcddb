// SPDX-License-Identifier: Apache-2.0
// The background thread with its Committer. Whoever wants the Committer waits until no save is in flight: there is no
// other way to it, so that the two threads never meet in it. A reference that when_idle() gave is good until the next
// begin().
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
  // io is borrowed, and outlives this.
  CommitThread(Io& io, std::unique_ptr<Committer> committer);

  // Waits for the save in flight.
  Committer& when_idle();
  // Precondition: no save is in flight. The job's copy() is to be called by others. kIo where no thread can be had: the
  // outcome, then.
  Status begin(SaveRequest request);
  // Waits for the save in flight. Of the last save that began; once, then nullopt.
  std::optional<SaveOutcome> take_outcome();

  bool busy() const { return worker_.busy(); }
  void wait() { worker_.wait(); }
  // False if a save is still in flight then.
  bool wait_for(double seconds) { return worker_.wait_for(seconds); }

 private:
  Io& io_;
  std::unique_ptr<Committer> committer_;  // the background's while worker_ is busy, and so is:
  std::optional<SaveOutcome> outcome_;
  Worker worker_;  // last: it ends first
};

}  // namespace dl::ckpt
