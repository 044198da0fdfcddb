// SPDX-License-Identifier: Apache-2.0
// A dlckpt_ctx in C++: settings, lease, group, what is registered. The C functions of dlckpt.h are thin shims over it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/client/group.h"
#include "checkpoint/client/holders.h"
#include "checkpoint/client/progress_link.h"
#include "checkpoint/client/registry.h"
#include "checkpoint/client/restorer.h"
#include "checkpoint/client/settings.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/retention/retire.h"
#include "checkpoint/store/io.h"
#include "checkpoint/store/lease.h"

namespace dl::ckpt {

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
  Status save(int64_t step);
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
  bool is_leader() const { return settings_.rank == 0; }

  // save.cpp
  Result<CheckpointName> begin_save(int64_t step);
  Status save_together(int64_t step);
  Result<std::string> write_part(const CheckpointName& name);
  Status commit(const CheckpointName& name, const std::vector<std::string>& messages);

  Settings settings_;
  Io& io_;
  std::optional<Lease> lease_;  // rank 0, unless dlrun holds it
  std::string lease_token_;     // rank 0: of whichever lease protects us
  std::unique_ptr<Group> group_;
  std::optional<ProgressLink> page_;
  Registry registry_;
  Holders holders_;                        // of what the last save wrote
  SurveyMemory survey_memory_;             // rank 0
  std::map<std::string, double> metrics_;  // for the next save
  std::unique_ptr<Restorer> restorer_;     // after what it borrows

  using Clock = std::chrono::steady_clock;
  Clock::time_point last_save_, last_renewal_;
  int64_t good_step_ = -1;  // train step last committed or restored by this run
  int64_t exit_step_ = -1;  // train step at which we said DLCKPT_WANT_EXIT
};

}  // namespace dl::ckpt
