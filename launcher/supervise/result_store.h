// SPDX-License-Identifier: Apache-2.0
// Stores results, logs and metrics at an end of the run, by dl-data (launcher/data) as a child of dlrun. The job
// directory keeps everything, so what does not fit before the deadline is stored at the next end, or by a job without
// GPUs if there is none.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/record/job_dir.h"
#include "launcher/supervise/blocking_calls.h"
#include "launcher/supervise/notice.h"
#include "launcher/supervise/run_state.h"

namespace dl::supervise {

// Less time than this suffices for nothing.
constexpr int64_t kLeastStoreMs = 2000;
// Kept free before the deadline for what follows the store: a question to Slurm, the ends of agents and of srun, and
// the return to the queue.
constexpr int64_t kAfterStoreMs = 4000;

// How long a store may take, in milliseconds; none: there is no limit. 0: nothing is stored at this end, because others
// wait for the GPUs and nobody has said for how long, or because Slurm is killing what is left. end_ms: when the time
// limit ends the job; none: never. Pure.
std::optional<int64_t> store_limit_ms(const RunState& state, std::optional<int64_t> end_ms, int64_t now_unix_ms);

// How long a store that is under way may still take after a signal that Slurm explains so, in milliseconds; none: as
// long as before. Pure.
std::optional<int64_t> hurry_ms(const NoticeReading& reading, int64_t now_unix_ms);

struct StoreOutcome {
  bool tried = false;
  bool done = false;
  bool late = false;  // it is not done because the time did not suffice
  std::string text;   // why it is not done: one sentence
  std::string job;    // the id of the job that it was handed to (store_job.h); empty: none
};

// What stored.json says of the outcome. Pure.
std::string stored_text(const plan::LaunchPlan& plan, const StoreOutcome& outcome, int attempt, int64_t now_unix_ms);

// The command that stores all of it. limit_ms: how long it may take; none: as long as it takes. Pure.
std::vector<std::string> store_command(const plan::LaunchPlan& plan, const record::JobDir& dir,
                                       std::optional<int64_t> limit_ms);

class ResultStore {
 public:
  // run: which dlrun of the job this is.
  ResultStore(uv_loop_t* loop, int run) : loop_(loop), run_(run), calls_(loop) {}
  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  // Stores, then calls `then`, not before this has returned. Not while another store runs.
  void start(const plan::LaunchPlan& plan, const record::JobDir& dir, std::optional<int64_t> limit_ms,
             std::function<void(const StoreOutcome&)> then);
  bool under_way() const { return pid_ > 0; }
  // It has to end within this time from now on.
  void hurry(int64_t ms);
  // How far it is, in one sentence; empty if none is under way. Reads a file.
  std::string text() const;

  // Submits a job that stores it all (store_job.h), then calls `then` with its id.
  void hand_over(const plan::LaunchPlan& plan, const record::JobDir& dir, int attempt,
                 std::function<void(const Result<std::string>&)> then);
  // Ends the job that an earlier end was handed to, if there is one, without waiting for it: this run goes on with what
  // it has stored. Reads a file.
  void take_back(const record::JobDir& dir);
  bool idle() const { return calls_.idle(); }

 private:
  bool look();

  uv_loop_t* loop_;
  const int run_;
  BlockingCalls calls_;
  pid_t pid_ = 0;
  UniqueFd errors_;
  std::string words_, progress_;
  int64_t until_ms_ = 0;  // of the awake clock; 0: no limit
  std::function<void(const StoreOutcome&)> then_;
};

}  // namespace dl::supervise
