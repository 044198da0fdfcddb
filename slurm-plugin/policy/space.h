// SPDX-License-Identifier: Apache-2.0
// GPUs as claims see them: free now; free later, once all jobs that were asked to yield have gone; free last, once also
// the jobs have gone that are still protected and will be asked. On every node each count is at least as large as the
// one before.
#pragma once

#include <vector>

#include "slurm-plugin/policy/free_gpus.h"

namespace dl::policy {

class Space {
 public:
  enum class When { kNow, kLater, kLast };
  // What is kept for a claim, so that it can be given back.
  struct Kept {
    std::vector<Part> parts;
    int gpus_per_learner = 1;
    std::vector<int> now, later;  // GPUs of each part that were subtracted from these two counts
  };

  // `now` is shared with whoever starts jobs, and must outlive this.
  explicit Space(FreeGpus* now) : now_(*now), later_(*now), last_(*now) {}

  const FreeGpus& now() const { return now_; }
  const FreeGpus& at(When when) const { return when == When::kNow ? now_ : when == When::kLater ? later_ : last_; }
  bool holds(When when, const std::vector<Part>& parts, int gpus_per_learner) const;

  // A job has started on free GPUs (started()), or has given them back (ended()). The caller has changed `now` already;
  // these change the other counts.
  void started(const std::vector<Part>& parts, int gpus_per_learner);
  void ended(const std::vector<Part>& parts, int gpus_per_learner);
  // A job that holds `held` gives up some of its learners: it was asked (kLater), or will be once it may be (kLast).
  void give_up(When when, const std::vector<Part>& held, int learners_left, int gpus_per_learner);
  // Sets a claim's place aside. GPUs that become free last are used first, so that few free ones idle until then.
  Kept keep(When when, std::vector<Part> parts, int gpus_per_learner);
  void release(const Kept& kept);

 private:
  FreeGpus& now_;
  FreeGpus later_;
  FreeGpus last_;
};

}  // namespace dl::policy
