// SPDX-License-Identifier: Apache-2.0
// What a daemon notices by looking on, and may forget without harm. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/decide.h"

namespace dl::policyd {

// When jobs saved last: dlrun's comment tells the newest saved train step, and it is noted when that grew. A hint from
// a text that users may write: a job that lies about it only makes itself a likelier victim.
class CheckpointTimes {
 public:
  // Puts what is known into view->state: between the start of the attempt and now.
  void update(const observe::Records& records, observe::ClusterView* view);

 private:
  struct Seen {
    int64_t start_s = 0;
    int64_t step = -1;
    int64_t at_s = 0;  // 0: no growth seen yet
  };
  std::map<int64_t, Seen> seen_;  // by job
};

// The number behind " step=" in dlrun's part of a comment; -1 if there is none.
int64_t saved_step(const std::string& comment);

// Jobs that the decision would start on GPUs that are free, but which Slurm does not start: for a constraint that is
// not known here. They are passed over for a while, longer each time, so that GPUs do not idle for them, and nobody
// gives way to them again and again.
class StuckJobs {
 public:
  static constexpr int64_t kPatienceS = 60;
  static constexpr int64_t kFirstS = 300;
  static constexpr int64_t kLongestS = 86400;

  void update(const observe::ClusterView& view, const policy::Decision& decision);
  // To be left out of the next decision.
  std::set<int64_t> passed_over(int64_t now_s) const;

 private:
  struct Try {
    int64_t since_s = 0;    // could start from then on; 0: not now
    int64_t until_s = 0;    // passed over
    int64_t penalty_s = 0;  // the last one
  };
  std::map<int64_t, Try> tries_;  // by job
};

}  // namespace dl::policyd
