// SPDX-License-Identifier: Apache-2.0
// What the learners use (launcher/use): written each 10 s as series beside the metrics, metrics/attempt-A/use.series,
// and summed up for the end of the run. Files are written on another thread, since the file system may be slow; one
// that cannot be written is tried again, and lost at worst. Used from the loop's thread alone.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/metrics/series_writer.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/event_log.h"
#include "launcher/supervise/blocking_calls.h"
#include "launcher/supervise/journal.h"
#include "launcher/use/job_use.h"

namespace dl::supervise {

class UseKeeper {
 public:
  static constexpr int64_t kEachMs = 10'000;  // how often agents report, and points are written
  // How often GPUs are looked at where idle ones are not looked for (LearnerWatch::gpu_look_ms()).
  static constexpr int64_t kGpuLookMs = 5000;
  // A shorter run is told of in events.jsonl alone.
  static constexpr double kToldFromS = 10;

  explicit UseKeeper(uv_loop_t* loop) : calls_(loop) {}

  // path: of the series of the new attempt. Reads Slurm's variables of the memory that was asked for.
  void begin_attempt(const plan::LaunchPlan& plan, std::string path, int64_t now_ms);
  void all_run(int64_t now_ms) { use_.all_run(now_ms); }
  void progressed(int rank, const protocol::Progress& progress, int64_t now_ms);
  void ended(int rank, int64_t now_ms) { use_.ended(rank, now_ms); }
  void end_attempt(int64_t now_ms) { use_.end_attempt(now_ms); }
  void used(int rank, const protocol::Use& use, int64_t now_ms) { use_.add(rank, use, now_ms); }
  void gpus_used(int rank, const protocol::GpuUse& use, int64_t now_ms) { use_.add(rank, use, now_ms); }
  // To be called about each second while learners run.
  void look(int64_t now_ms, int64_t now_unix_ms);

  // Seconds for which saves have held learners up, in all attempts of this dlrun.
  double saving_s(int64_t now_ms) const { return use_.saving_s(now_ms); }
  // Of the run so far; none: no learner has run. told: long enough to be told in the job's output, too.
  std::optional<record::UsedInAll> so_far(int64_t now_ms, bool* told = nullptr) const;
  // The same goes into the record with the next event about the whole job. Returns the line that tells it to the user;
  // empty: there is nothing to tell.
  std::string record(Journal* journal, int64_t now_ms) const;
  // Of one learner in the newest attempt, by name, as far as it was measured.
  std::map<std::string, double> of_learner(int rank) const { return use::learner_numbers(use_.facts_of(rank)); }
  bool idle() const { return calls_.idle(); }

 private:
  use::JobUse use_;
  int64_t written_ms_ = 0;
  int64_t step_ = metrics::kNoStep;
  BlockingCalls calls_;
  std::shared_ptr<metrics::SeriesWriter> writer_;  // used by the calls alone, one after another
};

// The memory that a job has asked of Slurm, in bytes, from its environment; none: it is not known, or the job has whole
// nodes. Pure but for the environment, of which `value` gives a variable, or an empty text.
std::optional<double> memory_asked(const plan::LaunchPlan& plan, const std::function<std::string(const char*)>& value);

}  // namespace dl::supervise
