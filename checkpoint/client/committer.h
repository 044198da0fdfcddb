// SPDX-License-Identifier: Apache-2.0
// The part of a save that runs in the background, and all that it works with: rank 0 opens an attempt, every rank
// writes its files and tells rank 0, rank 0 commits and tells all. What it needs of the training thread comes in the
// SaveRequest, what that has to know goes back in the SaveOutcome. The context reaches it through CommitThread alone,
// which hands it out only while no save is in flight.
#pragma once

#include <memory>
#include <string>
#include <vector>

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
  // What Context::open() made for it.
  struct Parts {
    std::string lease_token;             // rank 0: of whichever lease protects us
    std::shared_ptr<ProgressLink> page;  // nullptr without dlrun
    std::unique_ptr<Group> group;        // never nullptr
    std::unique_ptr<Levels> levels;      // nullptr: there is no node-local level
  };
  // settings and io are borrowed, and outlive this.
  Committer(const Settings& settings, Io& io, Parts parts);
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  // The whole save but copying the state. On rank 0 *retired are the folders that are to be removed after it.
  SaveOutcome run(SaveRequest* request, std::vector<std::string>* retired) noexcept;

  Peers& peers() { return peers_; }
  Engine& engine() { return engine_; }
  Levels* levels() { return levels_.get(); }
  // Where this rank's files are put first.
  const std::string& files_directory() const;
  // What saves took so far says of the next; dlrun is told, too.
  SavePrediction predict() const;
  // The save of this train step slowed training down by so much: on disk with the next save's row.
  void note_slowdown(int64_t step, double seconds) { history_.set_slowdown(step, seconds); }
  // The run is over: what it kept for itself in the checkpoint directory goes. The lease is held still.
  void leave();

 private:
  struct Save;  // one, while it runs
  bool is_leader() const { return settings_.rank == 0; }
  Status save_together(Save* save);
  Result<CheckpointName> begin_save(int64_t step);
  Result<CheckpointName> agree_on_name(Save* save);
  Result<std::string> write_part(Save* save);
  Result<std::string> tell_part(Save* save, Part part);
  Result<std::string> assemble(Save* save, const std::vector<std::string>& messages);
  Status commit(Save* save, const std::vector<std::string>& messages);
  void remember_times(const Save& save);
  // save_levels.cpp: the same where there is a node-local level.
  Result<std::string> attempt_directory(const CheckpointName& name);
  Status commit_by_levels(Save* save, const Result<std::vector<std::string>>& messages);

  const Settings& settings_;
  Io& io_;
  const std::string lease_token_;
  const std::shared_ptr<ProgressLink> page_;
  Peers peers_;
  const std::unique_ptr<Levels> levels_;
  Engine engine_;
  SurveyMemory survey_memory_;  // rank 0
  SaveHistory history_;
};

// One save, while it runs.
struct Committer::Save {
  SaveRequest& request;
  CheckpointName name;  // once agreed on
  std::string slot;     // folder with files to be written again in place, or empty
  Part own;             // rank 0: what it would tell itself; of many tensors, text and back takes a tenth of a second
  bool written = false;
  double local_s = 0;  // until it was committed at the node-local level
  SaveOutcome outcome;
  std::vector<std::string> retired;
};

}  // namespace dl::ckpt
