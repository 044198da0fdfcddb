// SPDX-License-Identifier: Apache-2.0
// The job as Slurm knows it: all questions that dlrun asks Slurm about it, and all changes that it makes, one after
// another on another thread, so that the loop never waits for slurmctld. Answers come on the loop's thread. Without
// Slurm nothing is asked, and the answer is that nothing is known.
#pragma once

#include <chrono>
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
  // heard: called with each answer about the job.
  SlurmJob(uv_loop_t* loop, std::string job_id, std::function<void(const slurm_cli::JobInfo&)> heard)
      : id_(std::move(job_id)), calls_(loop), urgent_(loop), heard_(std::move(heard)) {}

  // Slurm's last answer; none: there was no answer yet.
  const std::optional<slurm_cli::JobInfo>& info() const { return info_; }
  void learn(slurm_cli::JobInfo info) { info_ = std::move(info); }
  // A batch job that Slurm may put back into the queue.
  bool can_requeue() const { return !id_.empty() && info_ && info_->batch && info_->requeue; }
  // The same, but also true as long as Slurm has not answered.
  bool may_be_requeued() const { return !id_.empty() && (!info_ || can_requeue()); }

  using Answer = std::optional<slurm_cli::JobInfo>;
  // Asks Slurm about the job. The answer is none if Slurm does not answer or does not know the job; else info() has it,
  // too.
  void ask(std::function<void(const Answer&)> then);
  // Asks for KillWait, in seconds. Only the first call does anything.
  void ask_kill_wait(std::function<void(int64_t)> then);
  // Sets version(), to 0.0.0 if Slurm does not answer.
  void ask_version(std::function<void()> then);
  const std::optional<slurm_cli::Version>& version() const { return version_; }

  // Puts the job back into the queue. excluded: nodes that it must not get, besides those that it excludes already.
  void put_back(bool hold, const std::string& excluded, std::function<void(const Status&)> then);
  void hold();
  // Sets the job's begin time a few seconds ahead. Of several calls that wait only the last is carried out.
  void keep_begin_time(std::function<void()> then);
  // Sets the job's comment. `write` runs on the other thread: it composes the text and passes it to the function that
  // it gets, which sends it to Slurm and tells whether that succeeded, and returns whether the comment is set. Of
  // several calls that wait only the last is carried out.
  using Send = std::function<bool(const std::string& text)>;
  void set_comment(std::function<bool(const Send& send)> write, std::function<void(bool done)> then);
  // Runs a job step on nodes of the job to its end: the command of srun, which may take this long.
  void run_step(std::vector<std::string> argv, std::chrono::seconds limit, std::function<void()> then);
  // Takes nodes out of the job. folder: as in slurm_cli.h. no_more_comments: called if Slurm will refuse every later
  // update.
  void release_nodes(const std::vector<std::string>& nodes, const std::string& folder,
                     std::function<void()> no_more_comments, std::function<void(const Status&)> then);

  bool idle() const { return calls_.idle() && urgent_.idle(); }

 private:
  void begin_question();
  void end_question();

  std::string id_;
  BlockingCalls calls_;
  BlockingCalls urgent_;  // for put_back() while Slurm leaves a question unanswered
  std::function<void(const slurm_cli::JobInfo&)> heard_;
  std::optional<slurm_cli::JobInfo> info_;
  std::optional<slurm_cli::Version> version_;
  bool kill_wait_asked_ = false;
  int asking_ = 0;              // questions that are not answered yet
  int64_t asked_since_ms_ = 0;  // awake time, of the oldest of them
};

}  // namespace dl::supervise
