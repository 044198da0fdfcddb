// SPDX-License-Identifier: Apache-2.0
// The job as Slurm has it: every question that dlrun asks about it and every change that it makes, one after the other
// on a thread of its own, so that the loop never waits for slurmctld. Answers come on the loop's thread. Without Slurm
// nothing is asked: the answers are that nothing is known.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/slurm_cli/slurm_cli.h"
#include "launcher/supervise/blocking_calls.h"

namespace dl::supervise {

class SlurmJob {
 public:
  // job_id: empty without Slurm.
  // heard: told of each answer.
  SlurmJob(uv_loop_t* loop, std::string job_id, std::function<void(const slurm_cli::JobInfo&)> heard)
      : id_(std::move(job_id)), calls_(loop), urgent_(loop), heard_(std::move(heard)) {}

  // What Slurm said last; none: it has not said anything yet.
  const std::optional<slurm_cli::JobInfo>& info() const { return info_; }
  void learn(slurm_cli::JobInfo info) { info_ = std::move(info); }
  // A batch job that Slurm may put back into the queue.
  bool can_requeue() const { return !id_.empty() && info_ && info_->batch && info_->requeue; }
  // Before it is known what Slurm says of the job it may be one.
  bool may_be_requeued() const { return !id_.empty() && (!info_ || can_requeue()); }

  using Answer = std::optional<slurm_cli::JobInfo>;
  // What it says now; none: it does not answer, or not know the job. info() is the answer by then, if there is one.
  void ask(std::function<void(const Answer&)> then);
  // KillWait, in seconds; once.
  void ask_kill_wait(std::function<void(int64_t)> then);
  // 0.0.0 where Slurm does not say.
  void ask_version(std::function<void()> then);
  const std::optional<slurm_cli::Version>& version() const { return version_; }

  // Puts the job back, away from `excluded` as well as from what it must not get already.
  void put_back(bool hold, const std::string& excluded, std::function<void(const Status&)> then);
  void hold();
  // The begin time a few seconds ahead. Of several that wait the last counts.
  void keep_begin_time(std::function<void()> then);
  // Takes nodes out of the job. no_more_comments: Slurm will refuse every update after it.
  void release_nodes(const std::vector<std::string>& nodes, const std::string& folder,
                     std::function<void()> no_more_comments, std::function<void(const Status&)> then);

  // For the comment, in its turn with the rest.
  BlockingCalls* calls() { return &calls_; }
  bool idle() const { return calls_.idle() && urgent_.idle(); }

 private:
  std::string id_;
  BlockingCalls calls_;
  BlockingCalls urgent_;  // for what cannot wait for an answer that does not come
  std::function<void(const slurm_cli::JobInfo&)> heard_;
  std::optional<slurm_cli::JobInfo> info_;
  std::optional<slurm_cli::Version> version_;
  bool kill_wait_asked_ = false;
  int asking_ = 0;              // questions that are not answered yet
  int64_t asked_since_ms_ = 0;  // awake time, of the oldest of them
};

}  // namespace dl::supervise
