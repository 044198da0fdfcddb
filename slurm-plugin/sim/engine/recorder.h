// SPDX-License-Identifier: Apache-2.0
// Keeps count during a replay: integrals over virtual time and the fate of each job, from which the outcome is
// computed.
#pragma once

#include "slurm-plugin/sim/engine/outcome.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

// Numbers that stay the same from one event to the next.
struct Levels {
  int running = 0;    // GPUs that running jobs hold
  int held_idle = 0;  // GPUs that learners hold while they wait for others of their job
  int free = 0;       // free GPUs
  int unusable = 0;   // free GPUs that the trace's largest learner could not use
  int queued = 0;     // waiting jobs
  bool deadlock = false;
};

struct JobRecord {
  int64_t first_start_s = -1;
  int64_t end_s = -1;
  int64_t pauses = 0;
  bool refused = false;
  double held_gpu_s = 0;
};

class Recorder {
 public:
  Recorder(const Trace& trace, int gpus);

  // Counts `levels` for the time from the last call until now_s.
  void advance(int64_t now_s, const Levels& levels);

  std::vector<JobRecord> jobs;  // by job of the trace
  Outcome counts;               // counters that the engine itself increases

  Outcome finish(const std::vector<std::string>& tenants);

 private:
  const Trace& trace_;
  double gpus_;
  int64_t begin_s_;
  int64_t window_end_s_;  // utilisation and similar numbers are averaged until then
  int64_t now_s_;
  double window_s_ = 0;
  double running_gpu_s_ = 0;
  double idle_gpu_s_ = 0;
  double free_gpu_s_ = 0;
  double unusable_gpu_s_ = 0;
  Series series_;
};

}  // namespace dl::sim
