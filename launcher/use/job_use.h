// SPDX-License-Identifier: Apache-2.0
// Adds up what the learners of a run use, over all its attempts, by phase: what agents report is integrated over the
// time that it is about. Pure: times are of one clock that never goes back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/protocol/control_protocol.h"
#include "launcher/use/learner_use.h"
#include "launcher/use/phases.h"
#include "launcher/use/use_sentence.h"

namespace dl::use {

// What the learners of the newest attempt have.
struct Given {
  size_t learners = 0;
  int gpus_each = 0;
  int cpus_each = 0;                   // 0: unknown
  bool asked = false;                  // by the job, of Slurm; false: they are the machine's
  std::optional<double> memory_asked;  // bytes, of the job
};

class JobUse {
 public:
  // A new attempt: what its learners tell is added to what earlier ones told.
  void begin_attempt(const Given& given, int64_t now_ms);
  // All its learners run: the phase is no longer waiting.
  void all_run(int64_t now_ms);
  // A learner has announced its train step, or holds its training up for a save, or goes on.
  void progressed(int rank, bool announced, bool saving, int64_t now_ms);
  // This learner uses nothing any more.
  void ended(int rank, int64_t now_ms);
  // Until the next attempt the run waits.
  void end_attempt(int64_t now_ms);
  // Reports of agents, which came at now_ms; what cannot be is ignored, and so is a rank that is none.
  void add(int rank, const protocol::Use& report, int64_t now_ms);
  void add(int rank, const protocol::GpuUse& report, int64_t now_ms);

  Facts facts(int64_t now_ms) const;
  // Of one learner of the newest attempt alone; nothing measured for a rank that is none.
  Facts facts_of(int rank) const;

  // Seconds for which saves have held learners up.
  double saving_s(int64_t now_ms) const {
    return clock_.milliseconds(now_ms)[static_cast<size_t>(Phase::kSaving)] / 1000;
  }

  // What is used now, by the newest reports: name and value of those of which all learners that run have told.
  std::vector<std::pair<const char*, double>> now(int64_t now_ms) const;

 private:
  struct Learner {
    bool ended = false, announced = false, saving = false;
    protocol::Use use;
    protocol::GpuUse gpu;
    int64_t use_ms = -1, gpu_ms = -1;  // when they came; -1: they have not
    double memory = 0;
    int memory_of = 0;
    LearnerUse sums;
  };
  void choose_phase(int64_t now_ms);
  std::optional<double> memory_now() const;
  double cpus_now(int64_t now_ms, bool* complete) const;

  Given given_;
  std::vector<Learner> learners_;
  size_t announced_ = 0, saving_ = 0;
  bool all_run_ = false, ever_announced_ = false;
  PhaseClock clock_;

  // Of all attempts: sums over time, and the time over which they were measured.
  PerPhase gpu_busy_{}, gpu_time_{}, cpu_time_{}, cpu_over_{};
  double sm_busy_ = 0, sm_time_ = 0;
  std::optional<double> joules_, gpu_memory_, cpu_s_, memory_, most_cpus_, read_, written_;
  bool joules_lost_ = false;
  int gpus_measured_ = 0;  // in the newest attempt in which any were
};

}  // namespace dl::use
