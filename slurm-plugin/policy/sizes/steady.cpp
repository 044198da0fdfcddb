// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/sizes/steady.h"

#include <algorithm>
#include <map>

#include "slurm-plugin/policy/free_gpus.h"

namespace dl::policy {
namespace {

// decide() with jobs that start at no more than the sizes that were chosen for them.
Decision decide_smaller(ClusterState* state, const Sizes& sizes) {
  std::vector<std::pair<int, int>> were;
  for (const Resize& resize : sizes.resizes) {
    Job& job = state->jobs[resize.job];
    const int learners = learners_of(resize.parts);
    if (!resize.starts || learners >= job.max_learners) continue;
    were.emplace_back(resize.job, job.max_learners);
    job.max_learners = learners;
  }
  Decision decision = decide(state);
  for (const auto& [job, learners] : were) state->jobs[job].max_learners = learners;
  return decision;
}

class Steady {
 public:
  Steady(const ClusterState& state, const Sizes& sizes, const Decision& decision)
      : state_(state),
        sizes_(sizes),
        decision_(decision),
        free_(state),
        starts_(state.jobs.size()),
        meant_(state.jobs.size()),
        wanted_(state.types.size()),
        for_starts_(state.types.size()) {}

  std::vector<Resize> now() {
    for (const Start& start : decision_.starts) {
      starts_[start.job] = 1;
      free_.take(start.parts, state_.jobs[start.job].gpus_per_learner);
    }
    for (const Resize& resize : sizes_.resizes) {
      if (!resize.starts || starts_[resize.job] != 0) continue;
      meant_[resize.job] = 1;
      for_starts_[resize.type] = 1;
      room_for_starts_[{state_.jobs[resize.job].tenant, resize.type}] +=
          learners_of(resize.parts) * state_.jobs[resize.job].gpus_per_learner;
    }
    find_wanted_types();
    std::vector<Resize> resizes;
    for (const Resize& resize : sizes_.resizes)
      if (resize.starts ? meant_[resize.job] != 0 : may(resize)) resizes.push_back(resize);
    return resizes;
  }

 private:
  // Types that somebody waits for who is not to start on what is given up.
  void find_wanted_types() {
    for (const Waiting& one : decision_.waiting) {
      const bool own_limit =
          one.reason == Reason::kQuota || one.reason == Reason::kBorrowLimit || one.reason == Reason::kUserLimit;
      if (own_limit || meant_[one.job] != 0) continue;
      const int type = state_.jobs[one.job].type;
      for (int i = 0; i < state_.type_count(); ++i)
        if (type == kAnyType || type == i) wanted_[i] = 1;
    }
  }

  bool may(const Resize& resize) {
    const Job& job = state_.jobs[resize.job];
    const int more = learners_of(resize.parts) - job.learners();
    if (more > 0) return wanted_[resize.type] == 0 && for_starts_[resize.type] == 0 && has_room(resize);
    if (more == 0 || wanted_[resize.type] == 0) return true;
    if (job.charge != Charge::kOwn) return false;
    int& room = room_for_starts_[{job.tenant, resize.type}];
    const int gives = -more * job.gpus_per_learner;
    if (gives > room) return false;
    room -= gives;
    return true;
  }

  // Takes what the job gets beyond its present parts.
  bool has_room(const Resize& resize) {
    const Job& job = state_.jobs[resize.job];
    FreeGpus room = free_;
    room.give(job.parts, job.gpus_per_learner);
    for (const Part& part : resize.parts)
      if (room.on(part.node) < part.learners * job.gpus_per_learner) return false;
    room.take(resize.parts, job.gpus_per_learner);
    free_ = std::move(room);
    return true;
  }

  const ClusterState& state_;
  const Sizes& sizes_;
  const Decision& decision_;
  FreeGpus free_;
  std::vector<char> starts_;                            // by job: the decision starts it
  std::vector<char> meant_;                             // by job: it is to start on what others give up
  std::vector<char> wanted_;                            // by type
  std::vector<char> for_starts_;                        // by type: some of `meant_` would have it
  std::map<std::pair<int, int>, int> room_for_starts_;  // by tenant and type: GPUs that those of `meant_` need
};

}  // namespace

SteadySizes decide_steadily(ClusterState* state, const std::vector<JobSpeeds>& speeds, const SizeOptions& options) {
  if (!any_size_is_open(*state, speeds, options)) return {decide(state), {}};
  Sizes sizes = decide_sizes(*state, speeds, options);
  SteadySizes answer;
  const bool starts =
      std::any_of(sizes.resizes.begin(), sizes.resizes.end(), [](const Resize& one) { return one.starts; });
  answer.decision = starts ? decide_smaller(state, sizes) : std::move(sizes.decision);
  answer.resizes = Steady(*state, sizes, answer.decision).now();
  return answer;
}

}  // namespace dl::policy
