// SPDX-License-Identifier: Apache-2.0
// The part of a save that runs in the background, with all its data: rank 0 opens an attempt, every rank writes its
// files and reports to rank 0, rank 0 commits and informs all ranks. Its input from the training thread is the
// SaveRequest, its result the SaveOutcome. The context reaches it only through CommitThread, which gives access only
// while no save is in flight.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/client/object_sender.h"
#include "checkpoint/client/peers.h"
#include "checkpoint/client/progress_link.h"
#include "checkpoint/client/save_request.h"
#include "checkpoint/client/settings.h"
#include "checkpoint/engine/engine.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/levels/levels.h"
#include "checkpoint/levels/save_history.h"
#include "checkpoint/store/io.h"
#include "checkpoint/store/retire.h"

namespace dl::ckpt {

class Committer {
 public:
  // Objects that Context::open() creates for the Committer.
  struct Parts {
    std::string lease_token;               // rank 0: token of the lease, which we or dlrun hold
    std::shared_ptr<ProgressLink> page;    // nullptr without dlrun
    std::unique_ptr<Group> group;          // never nullptr
    std::unique_ptr<Levels> levels;        // nullptr: there is no node-local level
    std::unique_ptr<ObjectSender> sender;  // rank 0; nullptr: there is no object store
  };
  // settings and io are borrowed and must outlive this object.
  Committer(const Settings& settings, Io& io, Parts parts);
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  // Runs the whole save, except that it does not copy the state. On rank 0 *retired receives the folders that are to be
  // removed afterwards.
  SaveOutcome run(SaveRequest* request, std::vector<std::string>* retired) noexcept;

  Peers& peers() { return peers_; }
  Engine& engine() { return engine_; }
  Levels* levels() { return levels_.get(); }
  // The directory into which this rank's files are written first.
  const std::string& files_directory() const;
  // Predicts from former saves how long the next one takes, and writes the prediction to the progress page for dlrun.
  SavePrediction predict() const;
  // Notes by how many seconds the save of this train step slowed training down. It is stored when the times of the next
  // save are.
  void note_slowdown(int64_t step, double seconds) { history_.set_slowdown(step, seconds); }
  const std::string& lease_token() const { return lease_token_; }
  // New checkpoints shall be newer than all of this generation, which the object store has. Only used on rank 0.
  void stay_above(uint32_t generation) { above_ = std::max(above_, generation); }
  // Called at the end of the run: removes the files that the run kept for itself in the checkpoint directory. The lease
  // must still be held.
  void leave();

 private:
  struct Save;  // one save while it runs
  bool is_leader() const { return settings_.rank == 0; }
  Status save_together(Save* save);
  Result<CheckpointName> begin_save(int64_t step);
  Result<CheckpointName> agree_on_name(Save* save);
  Result<std::string> write_part(Save* save);
  Result<std::string> tell_part(Save* save, Part part);
  Result<std::string> assemble(Save* save, const std::vector<std::string>& messages);
  Status commit(Save* save, const std::vector<std::string>& messages);
  void remember_times(const Save& save);
  // Only rank 0: what retention may not remove now, and that a checkpoint is to be sent.
  RetentionPolicy retention_now() const;
  void offer(const CheckpointName& name);
  // In save_levels.cpp: the steps of a save if there is a node-local level.
  Result<std::string> attempt_directory(const CheckpointName& name);
  Status commit_by_levels(Save* save, const Result<std::vector<std::string>>& messages);

  const Settings& settings_;
  Io& io_;
  const std::string lease_token_;
  const std::shared_ptr<ProgressLink> page_;
  Peers peers_;
  const std::unique_ptr<Levels> levels_;
  const std::unique_ptr<ObjectSender> sender_;
  uint32_t above_ = 0;
  Engine engine_;
  SurveyMemory survey_memory_;  // only used on rank 0
  SaveHistory history_;
};

// One save while it runs.
struct Committer::Save {
  SaveRequest& request;
  CheckpointName name;  // set once the ranks have agreed on it
  std::string slot;     // folder with old files that are overwritten in place, or empty
  // Rank 0: its own report. It is not converted to text and back, which takes a tenth of a second for many tensors.
  Part own;
  bool written = false;
  double local_s = 0;  // seconds until it was committed at the node-local level
  SaveOutcome outcome;
  std::vector<std::string> retired;
};

}  // namespace dl::ckpt
