// SPDX-License-Identifier: Apache-2.0
// Measures how much a learner's GPUs are used, with NVIDIA's management library (NVML). A child process asks it, so
// that a driver that hangs blocks only that child. If the library, a GPU or its use is not available, the child ends
// and reports nothing: GPUs without a measurement count neither as used nor as idle. GPU use is the time in which a
// kernel ran, as the driver counts it; how much of the GPU that kernel used is another question.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "launcher/protocol/control_protocol.h"

namespace dl::agent {

// The learner's GPUs among those that the agent may see, by NVML's numbers or names ("GPU-8a..."). Without
// CUDA_VISIBLE_DEVICES they are taken in order, which is right only if NVML shows exactly the job's GPUs on this node
// (`seen`).
struct LearnerGpus {
  std::vector<std::string> names;
  unsigned seen = 0;  // NVML must show exactly this number of GPUs; 0: any number
};
// visible: CUDA_VISIBLE_DEVICES of the agent, nullptr if unset. The result has no names if the learner has no GPUs, or
// if it is not known which ones are its own. Pure.
LearnerGpus gpus_of_learner(const char* visible, int local_rank, int local_learners, int gpus_per_learner);

// The items at these positions of a list such as CUDA_VISIBLE_DEVICES; positions beyond its end are left out. Pure.
std::string chosen_gpus(const std::string& visible, const std::vector<int>& positions);
// CUDA_VISIBLE_DEVICES of the agent; with `narrowed` only these positions of it (Start::gpus). set: false if it is
// unset.
struct VisibleGpus {
  std::string text;
  bool set = false;
  const char* get() const { return set ? text.c_str() : nullptr; }
};
VisibleGpus visible_gpus(const std::vector<int>& positions, bool narrowed);

// The use of a GPU, in percent of the time, between `since_us` and the last of these samples of the driver's; a sample
// is the use since the one before it. Less than 0: they do not tell. Pure.
struct UseSample {
  uint64_t at_us = 0;
  double percent = 0;
};
double weighted_use(std::vector<UseSample> samples, uint64_t since_us);

class GpuSampler {
 public:
  static constexpr int kLooks = 3;  // each report is the highest use seen in this many looks

  GpuSampler() = default;
  ~GpuSampler() { stop(); }
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  // Starts the child, which looks each look_ms. Does nothing without GPUs, or if no process can be started.
  void start(const LearnerGpus& gpus, int64_t look_ms);
  // Readable when there is a report; -1: there will be none.
  int fd() const { return reports_.get(); }
  pid_t pid() const { return child_; }  // 0: there is none
  // What has come since the last call: the newest report (GpuUse::percent: the highest of all GPUs over the last kLooks
  // looks), and the use of all looks together. None: no report has come. `rest`: nothing more will be read, so that
  // looks without a report are told as well, with a percent of -1.
  std::optional<protocol::GpuUse> read(bool rest = false);
  // To be called with each process that the caller has reaped; all but the child are ignored.
  void reaped(pid_t pid) { child_ = pid == child_ ? 0 : child_; }
  // Kills the child, and waits 0.1 s at most for its end.
  void stop();

 private:
  pid_t child_ = 0;
  UniqueFd reports_;
  protocol::GpuUse waiting_{-1};
};

// Adds the use of another look to what is told of those before it. Pure.
void add_look(const protocol::GpuUse& look, protocol::GpuUse* use);

}  // namespace dl::agent
