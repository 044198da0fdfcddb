// SPDX-License-Identifier: Apache-2.0
// What dlpolicyd learns by comparing rounds. It may be lost without harm. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/decide.h"

namespace dl::policyd {

// The time of each job's last save. dlrun writes the newest saved train step into the job's comment, and this class
// notes when that number grew. Users may write to the comment; one who falsifies it only makes his job a more likely
// victim.
class CheckpointTimes {
 public:
  // Writes the known times into view->state; each lies between the start of the attempt and the present.
  void update(const observe::Records& records, observe::ClusterView* view);

 private:
  struct Seen {
    int64_t start_s = 0;
    int64_t step = -1;
    int64_t at_s = 0;  // 0: the number has not grown yet
  };
  std::map<int64_t, Seen> seen_;  // by job
};

// The number after " step=" in dlrun's part of a comment; -1 if there is none.
int64_t saved_step(const std::string& comment);

// Jobs that the decision wants to start on free GPUs and that Slurm does not start, because of a constraint that the
// policy does not know. Decisions leave them out for a while, longer each time, so that no GPUs are kept for them and
// no jobs yield to them again and again.
class StuckJobs {
 public:
  static constexpr int64_t kPatienceS = 60;
  static constexpr int64_t kFirstS = 300;
  static constexpr int64_t kLongestS = 86400;

  void update(const observe::ClusterView& view, const policy::Decision& decision);
  // The jobs that the next decision is to leave out.
  std::set<int64_t> passed_over(int64_t now_s) const;

 private:
  struct Try {
    int64_t since_s = 0;    // since when Slurm could have started it; 0: it may not start at present
    int64_t until_s = 0;    // decisions leave it out until then
    int64_t penalty_s = 0;  // for how long decisions were last told to leave it out
  };
  std::map<int64_t, Try> tries_;  // by job
};

}  // namespace dl::policyd
