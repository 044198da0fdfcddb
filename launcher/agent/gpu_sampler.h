// SPDX-License-Identifier: Apache-2.0
// How much a learner's GPUs are used, as NVIDIA's management library tells. A child process asks it, so that a driver
// that hangs holds up nobody but that child. Where the library, a GPU or its use is not to be had, the child ends and
// nothing is told: what was not measured counts neither as used nor as idle.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"

namespace dl::agent {

// Which of the GPUs that the agent may see are the learner's: numbers of NVML's or names ("GPU-8a..."). Without
// CUDA_VISIBLE_DEVICES nobody says which they are: then they are known only if NVML shows just those of the job here.
struct LearnerGpus {
  std::vector<std::string> names;
  unsigned seen = 0;  // NVML must show so many; 0: any number
};
// visible: CUDA_VISIBLE_DEVICES of the agent, nullptr if unset. Empty where the learner has none. Pure.
LearnerGpus gpus_of_learner(const char* visible, int local_rank, int local_learners, int gpus_per_learner);

// Of a list such as CUDA_VISIBLE_DEVICES the items at these positions; those that it does not have are left out. Pure.
std::string chosen_gpus(const std::string& visible, const std::vector<int>& positions);
// CUDA_VISIBLE_DEVICES of the agent, narrowed to what the learners of `start` shall see; none where it is not set.
struct VisibleGpus {
  std::string text;
  bool set = false;
  const char* get() const { return set ? text.c_str() : nullptr; }
};
VisibleGpus visible_gpus(const std::vector<int>& positions, bool narrowed);

class GpuSampler {
 public:
  static constexpr int kLooks = 3;  // one report tells the highest use of so many looks

  GpuSampler() = default;
  ~GpuSampler() { stop(); }
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  // Nothing happens without GPUs, or if no process can be had.
  void start(const LearnerGpus& gpus, int64_t look_ms);
  // To wait on; -1: there is nothing to wait for.
  int fd() const { return reports_.get(); }
  // The newest report, in percent: the highest of all GPUs over the last kLooks looks. None: nothing has come.
  std::optional<int> read();
  // The process was reaped by somebody else.
  void reaped(pid_t pid) { child_ = pid == child_ ? 0 : child_; }
  // Ends the child; waits a moment at most for it.
  void stop();

 private:
  pid_t child_ = 0;
  UniqueFd reports_;
};

}  // namespace dl::agent
