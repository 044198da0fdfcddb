// SPDX-License-Identifier: Apache-2.0
// GPUs as claims see them: free now, free when those that were asked to yield have gone, and free when those have gone
// too that are protected for a while yet. On every node each of the three holds at least as many as the one before.
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
    std::vector<int> now, later;  // GPUs of each part that were taken out of these two
  };

  // `now` is shared with whoever starts jobs, and must outlive this.
  explicit Space(FreeGpus* now) : now_(*now), later_(*now), last_(*now) {}

  const FreeGpus& now() const { return now_; }
  const FreeGpus& at(When when) const { return when == When::kNow ? now_ : when == When::kLater ? later_ : last_; }
  bool holds(When when, const std::vector<Part>& parts, int gpus_per_learner) const;

  // Something started on GPUs that were free, or gave them back: the count of those was changed already.
  void started(const std::vector<Part>& parts, int gpus_per_learner);
  void ended(const std::vector<Part>& parts, int gpus_per_learner);
  // A job gives up some of its learners, once it has been asked (kLater) or is not protected any more (kLast).
  void give_up(When when, const std::vector<Part>& held, int learners_left, int gpus_per_learner);
  // Sets a claim's place aside. What becomes free last is used first, so that as little as possible idles until then.
  Kept keep(When when, std::vector<Part> parts, int gpus_per_learner);
  void release(const Kept& kept);

 private:
  FreeGpus& now_;
  FreeGpus later_;
  FreeGpus last_;
};

}  // namespace dl::policy
