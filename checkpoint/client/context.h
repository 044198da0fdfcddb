// SPDX-License-Identifier: Apache-2.0
// A dlckpt_ctx in C++: settings, lease, group, what is registered. The C functions of dlckpt.h are thin shims over it.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/client/announcer.h"
#include "checkpoint/client/fork_mark.h"
#include "checkpoint/client/holders.h"
#include "checkpoint/client/pacer.h"
#include "checkpoint/client/progress_link.h"
#include "checkpoint/client/registry.h"
#include "checkpoint/client/restorer.h"
#include "checkpoint/client/save_plan.h"
#include "checkpoint/client/settings.h"
#include "checkpoint/engine/engine.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/group/group.h"
#include "checkpoint/levels/levels.h"
#include "checkpoint/levels/save_history.h"
#include "checkpoint/store/io.h"
#include "checkpoint/store/lease.h"
#include "checkpoint/store/retire.h"

namespace dl::ckpt {

// What dlckpt_stats tells; of the last finished save, and totals.
struct SaveStats {
  int64_t step = -1;
  Status outcome;
  int level = 0;
  uint64_t bytes = 0, written_bytes = 0, reused_bytes = 0;
  double blocked_s = 0, copy_s = 0, write_s = 0, fsync_s = 0, commit_s = 0, durable_s = 0;
  uint64_t saves = 0, failed_saves = 0, total_written_bytes = 0;  // of this context
  double total_blocked_s = 0;
};

// Threads: all functions are called by one thread (the *training thread*). A save that runs on in the background works
// on what it took with it, on io_, group_ and the members marked "background"; the training thread leaves these alone
// until finish_save_in_flight().
class Context {
 public:
  // io is borrowed and must outlive the context.
  static Result<std::unique_ptr<Context>> open(Settings settings, Io& io);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Registry& registry() { return registry_; }
  // Into the manifest of the next save, if this is rank 0. kInvalid.
  Status set_metric(const char* name, double value);
  // flags: DLCKPT_SYNC and so on. An asynchronous save that was begun is a success; *note (may be nullptr) then tells
  // of a former one that failed meanwhile. kBusy with EALREADY: DLCKPT_SKIP_IF_BUSY, and one is in flight.
  Status save(int64_t step, unsigned flags = 0, std::string* note = nullptr);
  void before_mutation();
  // kTimeout; else the outcome of the last save.
  Status wait(double timeout_s, int64_t* durable_step);
  // Not of a save in flight.
  SaveStats stats();
  // Whether this is the copy of a context in a child of fork(), which can only be left alone.
  bool forked() const { return fork_mark_.in_child(); }
  // On success *note says which newer checkpoints were passed over, or is empty.
  Result<int64_t> restore(int64_t step, std::string* note);
  // The blobs alone; the next restore of this train step takes the same checkpoint.
  Result<int64_t> peek(int64_t step, std::string* note);
  const RestoreStats& restore_stats() const { return restorer_->stats(); }
  int want(int64_t step);
  int64_t latest();
  int exit_code() const;
  void finished();
  // nullptr if there is none.
  const std::string* restored_blob(const std::string& path) const;

 private:
  Context(Settings settings, Io& io);
  Status take_lease();
  Status make_directory();
  void keep_lease();
  // What dlrun asks for before train step `step`; nullopt without dlrun.
  std::optional<ProgressPage::Request> ask_dlrun(int64_t step);
  // The save that is over was measured in full: into the history.
  void note_slowdown();
  // What the history predicts, to dlrun.
  SavePrediction tell_prediction();
  bool is_leader() const { return settings_.rank == 0; }

  // save.cpp: the training thread's part.
  struct SaveInFlight;
  Result<bool> busy_anywhere();
  // Waits for the save in flight. Its outcome, or success if there is none.
  Status finish_save_in_flight();
  Status begin_save_in_flight(int64_t step, bool lazy);
  Status prepare(SaveInFlight* save);
  std::shared_ptr<const WorkList> planned_tensors();
  const std::string& files_directory() const;
  void count_save();
  void warm_up();
  // commit.cpp: the background thread's part.
  void run_save(SaveInFlight* save) noexcept;
  Status save_together(SaveInFlight* save);
  Result<CheckpointName> begin_save(int64_t step);
  Result<CheckpointName> agree_on_name(SaveInFlight* save);
  Result<std::string> write_part(SaveInFlight* save, const CheckpointName& name);
  Result<std::string> tell_part(SaveInFlight* save, Part part);
  Result<std::string> assemble(SaveInFlight* save, const CheckpointName& name,
                               const std::vector<std::string>& messages);
  Status commit(SaveInFlight* save, const CheckpointName& name, const std::vector<std::string>& messages);
  // save_levels.cpp: the same where there is a node-local level.
  Result<std::string> attempt_directory(const CheckpointName& name);
  Status commit_by_levels(SaveInFlight* save, const CheckpointName& name,
                          const Result<std::vector<std::string>>& messages);
  void remember_times(const SaveInFlight& save);
  void note_retired(Result<std::vector<std::string>> folders);
  void remove_retired() noexcept;
  // restore.cpp
  Result<Restored> restore_from_levels(int64_t step, bool blobs_only, bool* healed_already);
  Status restore_members(const CheckpointName& name);
  void remember_files();

  Settings settings_;
  Io& io_;
  ForkMark fork_mark_;
  std::optional<Lease> lease_;  // rank 0, unless dlrun holds it
  std::string lease_token_;     // rank 0: of whichever lease protects us
  std::unique_ptr<Group> group_;
  std::optional<ProgressLink> page_;
  Registry registry_;
  Holders holders_;                              // of what the last save wrote
  std::shared_ptr<const WorkList> tensor_plan_;  // of the last save
  std::shared_ptr<const WorkList> laid_out_;     // the tensors that the engine has prepared last, if it could
  uint64_t planned_version_ = 0;                 // of the registered tensors
  SurveyMemory survey_memory_;                   // rank 0
  std::vector<std::string> retired_;             // background, rank 0: to be removed when nobody waits for it
  std::map<std::string, double> metrics_;        // for the next save
  std::unique_ptr<Levels> levels_;               // nullptr: there is no node-local level
  std::unique_ptr<Restorer> restorer_;           // after what it borrows

  using Clock = std::chrono::steady_clock;
  Clock::time_point last_renewal_;
  Pacer pacer_;
  std::atomic<int64_t> good_step_{-1};  // background: train step last committed or restored by this run

  SaveHistory history_;  // background: what saves took

  std::unique_ptr<SaveInFlight> in_flight_;  // the last one, until the next begins
  std::optional<Announcer> skipping_;        // where ranks agree on skipping, beside a save in flight
  std::atomic<bool> copying_{false};         // a lazy save reads registered memory
  SaveStats stats_;
  Engine engine_;
  Worker copier_, background_;  // last: they end first
};

}  // namespace dl::ckpt
