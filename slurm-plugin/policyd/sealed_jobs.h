// SPDX-License-Identifier: Apache-2.0
// Jobs of which Slurm takes no change until they are put back into the queue. On Slurm before 24.11 without slurmdbd
// these are the jobs that have given a node back, as dlrun does with one that was lost (ESLURM_JOB_SETTING_DB_INX);
// each refusal takes slurmctld 5 s. Signals and requeues work all the same. What such a job is asked is remembered here
// in place of its label: it saves when it gets the signal, and is requeued once its time is over. The next daemon knows
// nothing of it, and asks the job anew. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "slurm-plugin/policyd/planner.h"

namespace dl::policyd {

// Whether an action of this kind serves its purpose without the change that belongs to it.
bool works_without_change(ActionKind kind);

class SealedJobs {
 public:
  // A change is tried again after this time, and then after twice as long, and so on: where slurmdbd is only slow,
  // Slurm refuses changes for a while, too.
  static constexpr int64_t kFirstPauseS = 60;
  static constexpr int64_t kLongestPauseS = 3600;

  // Slurm has refused the change that belongs to this action. True: it is the first one of this job.
  bool refused(const Action& action, int64_t now_s);
  // Slurm has made it.
  void made(const Action& action);
  // The records as they would be if what is remembered stood in the labels; nothing if they would be the same. Forgets
  // jobs that have ended, or that began after the refusal.
  std::optional<observe::Records> with_requests(const observe::Records& records);
  // Takes out of the actions what Slurm would refuse, and remembers what is asked of the jobs.
  void leave_out_changes(std::vector<Action>* actions, int64_t now_s);

 private:
  struct Sealed {
    int64_t since_s = 0;
    int64_t again_s = 0;  // when a change is tried again
    int64_t pause_s = 0;
    bool runs = true;  // else it waits, and takes changes
    std::optional<policy::Yield> yields;
    std::optional<int64_t> queued_s;
  };
  static void remember(const Action& action, Sealed* job);

  std::map<int64_t, Sealed> jobs_;
};

}  // namespace dl::policyd
