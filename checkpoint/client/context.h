// SPDX-License-Identifier: Apache-2.0
// The object behind a dlckpt_ctx: settings, lease, group, and the registered state. The C functions of dlckpt.h only
// forward to it.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/client/announcer.h"
#include "checkpoint/client/commit_thread.h"
#include "checkpoint/client/holders.h"
#include "checkpoint/client/open_here.h"
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
#include "common/base/fork_mark.h"

namespace dl::ckpt {

// The numbers for dlckpt_stats: those of the last finished save, and totals.
struct SaveStats {
  int64_t step = -1;
  Status outcome;
  int level = 0;
  uint64_t bytes = 0, written_bytes = 0, reused_bytes = 0;
  double blocked_s = 0, copy_s = 0, write_s = 0, fsync_s = 0, commit_s = 0, durable_s = 0;
  uint64_t saves = 0, failed_saves = 0, total_written_bytes = 0;  // of all saves of this context
  double total_blocked_s = 0;
  SendStats objects;  // of rank 0
};

// The training thread's data about its last save, kept until the next one begins.
struct SaveInFlight {
  int64_t step = 0;
  std::deque<std::string> blobs;  // copies for the job, since the registry's blobs may change meanwhile
  std::shared_ptr<SaveJob> job;   // the job as long as it copies; then nullptr
  bool local_only = false;
  uint64_t state_bytes = 0;
  std::shared_ptr<std::atomic<double>> blocked_s = std::make_shared<std::atomic<double>>(0.0);
  std::optional<SaveOutcome> outcome;  // set when the save is over and counted
  bool told = false;                   // the program has been told the outcome
  bool slowdown_known = false;
};

// Threads: one thread (the *training thread*) calls all functions, and owns all members. The data that a save in flight
// uses belong to the Committer, which is only reached through commits_; that waits until no save is in flight.
class Context {
 public:
  // io is borrowed and must outlive the context.
  static Result<std::unique_ptr<Context>> open(Settings settings, Io& io);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Registry& registry() { return registry_; }
  // Puts the metric into the manifest of the next save; on ranks other than 0 without effect. kInvalid for a bad name
  // or value.
  Status set_metric(const char* name, double value);
  // flags: DLCKPT_SYNC and so on. If an asynchronous save succeeds, it has begun; *note (may be nullptr) then says
  // whether a former save has failed meanwhile. kBusy with EALREADY if DLCKPT_SKIP_IF_BUSY was given and a save is in
  // flight.
  Status save(int64_t step, unsigned flags = 0, std::string* note = nullptr);
  void before_mutation();
  // kTimeout, or else the outcome of the last save.
  Status wait(double timeout_s, int64_t* durable_step);
  // Numbers of finished saves; a save in flight is not included.
  SaveStats stats();
  // Whether this process is a child of fork() that has only a copy of the context; it must not use it.
  bool forked() const { return fork_mark_.in_child(); }
  // On success *note says which newer checkpoints were passed over; empty if there were none.
  Result<int64_t> restore(int64_t step, std::string* note);
  // Loads only the blobs; the next restore of this train step takes the same checkpoint.
  Result<int64_t> peek(int64_t step, std::string* note);
  const RestoreStats& restore_stats() const { return restorer_.stats(); }
  int want(int64_t step);
  int64_t latest();
  int exit_code();
  void finished();
  // Ends the run: waits for the save in flight and, on rank 0, for the object store (send_patience.h), and removes what
  // the run kept for itself. Returns what has to be told: that the newest checkpoint is not in the store; else "". The
  // destructor does it if nobody has; no other function may be called afterwards.
  std::string leave();
  // nullptr if there is no such blob.
  const std::string* restored_blob(const std::string& path) const;

 private:
  using Clock = std::chrono::steady_clock;

  Context(Settings settings, Io& io);
  Result<std::string> take_lease();
  Status make_directory();
  void keep_lease();
  std::string await_sending();
  // What dlrun asks the program to do before train step `step`; nullopt without dlrun.
  std::optional<ProgressPage::Request> ask_dlrun(int64_t step);
  void note_slowdown();

  // save.cpp
  Result<bool> busy_anywhere();
  // Waits for the save in flight. Returns its outcome, or success if there is none.
  Status finish_save_in_flight();
  Status begin_save_in_flight(int64_t step, bool lazy);
  Status prepare(Engine& engine, SaveRequest* request);
  std::shared_ptr<const WorkList> planned_tensors();
  void count_save();
  void warm_up();
  // restore.cpp
  Result<Restored> restore_from_levels(int64_t step, bool blobs_only, bool* healed_already);
  Status restore_members(const CheckpointName& name);
  // restore_objects.cpp: collective. What was done, for people, with "; " behind it.
  Result<std::string> fetch_from_objects(int64_t step);
  Result<std::string> fetch_as_leader(int64_t step, const std::function<Status()>& tick);
  void remember_files();

  const Settings settings_;
  Io& io_;
  ForkMark fork_mark_;
  OpenHere open_here_;  // under dlrun
  // nullptr without dlrun. All members of the page are atomic, because the background thread reports saves there.
  std::shared_ptr<ProgressLink> page_;
  Registry registry_;
  Holders holders_;                              // of the tensors that the last save wrote
  std::shared_ptr<const WorkList> tensor_plan_;  // the plan of the last save
  std::shared_ptr<const WorkList> laid_out_;     // the tensors that the engine prepared last, if it could
  uint64_t planned_version_ = 0;                 // Registry::tensors_version() when tensor_plan_ was made
  std::map<std::string, double> metrics_;        // for the next save
  Restorer restorer_;                            // declared after the members that it borrows

  std::optional<Lease> lease_;  // rank 0; not set if dlrun holds the lease
  Clock::time_point last_renewal_;
  Pacer pacer_;
  std::optional<Announcer> skipping_;  // for the ranks' agreement on skipping, while a save may be in flight

  int64_t good_step_ = -1;  // train step that this run committed or restored last, as far as this thread knows
  SaveStats stats_;
  std::optional<SaveInFlight> in_flight_;
  std::atomic<bool> copying_{false};       // a lazy save is reading registered memory
  std::optional<CommitThread> commits_;    // nullopt only during open()
  std::optional<CheckpointName> fetched_;  // from the object store, by the last restore
  ObjectSender* sender_ = nullptr;         // rank 0 with an object store: the Committer's, which any thread may call
  bool left_ = false;
  Worker copier_;  // last member, so that it is destroyed first, before commits_
};

}  // namespace dl::ckpt
