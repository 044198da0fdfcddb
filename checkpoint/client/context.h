// SPDX-License-Identifier: Apache-2.0
// What stands behind a dlckpt_ctx: settings, lease, group, and the registered state. The C functions of dlckpt.h only
// forward to it.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/client/announcer.h"
#include "checkpoint/client/commit_thread.h"
#include "checkpoint/client/fork_mark.h"
#include "checkpoint/client/holders.h"
#include "checkpoint/client/pacer.h"
#include "checkpoint/client/progress_link.h"
#include "checkpoint/client/registry.h"
#include "checkpoint/client/restorer.h"
#include "checkpoint/client/save_plan.h"
#include "checkpoint/client/save_request.h"
#include "checkpoint/client/settings.h"
#include "checkpoint/engine/worker.h"
#include "checkpoint/store/io.h"
#include "checkpoint/store/lease.h"

namespace dl::ckpt {

// The figures of dlckpt_stats: of the last finished save, and totals.
struct SaveStats {
  int64_t step = -1;
  Status outcome;
  int level = 0;
  uint64_t bytes = 0, written_bytes = 0, reused_bytes = 0;
  double blocked_s = 0, copy_s = 0, write_s = 0, fsync_s = 0, commit_s = 0, durable_s = 0;
  uint64_t saves = 0, failed_saves = 0, total_written_bytes = 0;  // of this context
  double total_blocked_s = 0;
};

// What the training thread keeps of its last save, until the next begins.
struct SaveInFlight {
  int64_t step = 0;
  std::deque<std::string> blobs;  // what the job copies; the registry's may change meanwhile
  std::shared_ptr<SaveJob> job;   // the job, as long as copying is not over; else nullptr
  bool local_only = false;
  uint64_t state_bytes = 0;
  std::shared_ptr<std::atomic<double>> blocked_s = std::make_shared<std::atomic<double>>(0.0);
  std::optional<SaveOutcome> outcome;  // once it is over and counted
  bool told = false;                   // the program knows the outcome
  bool slowdown_known = false;
};

// Threads: all functions are called by one thread (the *training thread*), and all that is here is its own. What a save
// in flight works with belongs to the Committer; the only way to it is commits_, which waits until it is idle.
class Context {
 public:
  // io is borrowed and must outlive the context.
  static Result<std::unique_ptr<Context>> open(Settings settings, Io& io);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Registry& registry() { return registry_; }
  // Puts the metric into the manifest of the next save, if this is rank 0. kInvalid for a bad name or value.
  Status set_metric(const char* name, double value);
  // flags: DLCKPT_SYNC and so on. Success of an asynchronous save means that it was begun; *note (may be nullptr) then
  // tells whether a former one has failed meanwhile. kBusy with EALREADY if DLCKPT_SKIP_IF_BUSY was given and a save is
  // in flight.
  Status save(int64_t step, unsigned flags = 0, std::string* note = nullptr);
  void before_mutation();
  // kTimeout; else the outcome of the last save.
  Status wait(double timeout_s, int64_t* durable_step);
  // A save in flight is not included.
  SaveStats stats();
  // Whether this process is a child of fork() that has only a copy of the context; it must not use it.
  bool forked() const { return fork_mark_.in_child(); }
  // On success *note says which newer checkpoints were passed over, or is empty.
  Result<int64_t> restore(int64_t step, std::string* note);
  // The blobs alone; the next restore of this train step takes the same checkpoint.
  Result<int64_t> peek(int64_t step, std::string* note);
  const RestoreStats& restore_stats() const { return restorer_.stats(); }
  int want(int64_t step);
  int64_t latest();
  int exit_code();
  void finished();
  // nullptr if there is none.
  const std::string* restored_blob(const std::string& path) const;

 private:
  using Clock = std::chrono::steady_clock;

  Context(Settings settings, Io& io);
  Result<std::string> take_lease();
  Status make_directory();
  void keep_lease();
  // What dlrun asks the program to do before train step `step`; nullopt without dlrun.
  std::optional<ProgressPage::Request> ask_dlrun(int64_t step);
  void note_slowdown();

  // save.cpp
  Result<bool> busy_anywhere();
  // Waits for the save in flight. Its outcome, or success if there is none.
  Status finish_save_in_flight();
  Status begin_save_in_flight(int64_t step, bool lazy);
  Status prepare(Engine& engine, SaveRequest* request);
  std::shared_ptr<const WorkList> planned_tensors();
  void count_save();
  void warm_up();
  // restore.cpp
  Result<Restored> restore_from_levels(int64_t step, bool blobs_only, bool* healed_already);
  Status restore_members(const CheckpointName& name);
  void remember_files();

  const Settings settings_;
  Io& io_;
  ForkMark fork_mark_;
  // nullptr without dlrun. All of it is atomic: the background tells dlrun of saves there.
  std::shared_ptr<ProgressLink> page_;
  Registry registry_;
  Holders holders_;                              // of what the last save wrote
  std::shared_ptr<const WorkList> tensor_plan_;  // of the last save
  std::shared_ptr<const WorkList> laid_out_;     // the tensors that the engine has prepared last, if it could
  uint64_t planned_version_ = 0;                 // of the registered tensors
  std::map<std::string, double> metrics_;        // for the next save
  Restorer restorer_;                            // after what it borrows

  std::optional<Lease> lease_;  // rank 0, unless dlrun holds it
  Clock::time_point last_renewal_;
  Pacer pacer_;
  std::optional<Announcer> skipping_;  // where ranks agree on skipping, beside a save in flight

  int64_t good_step_ = -1;  // train step last committed or restored by this run, as far as this thread knows
  SaveStats stats_;
  std::optional<SaveInFlight> in_flight_;
  std::atomic<bool> copying_{false};     // a lazy save reads registered memory
  std::optional<CommitThread> commits_;  // nullopt only within open()
  Worker copier_;                        // last: it ends first, then the background
};

}  // namespace dl::ckpt
