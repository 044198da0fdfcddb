// SPDX-License-Identifier: Apache-2.0
// Everything that is written down of a run: events.jsonl and, under Slurm, the job's comment. Refuses transitions that
// the table does not allow. A comment that cannot be set is tried again; training never waits for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_dir.h"
#include "launcher/supervise/blocking_calls.h"
#include "launcher/supervise/failure_class.h"

namespace dl::supervise {

class Journal {
 public:
  // job_id: empty without Slurm.
  Journal(record::JobDir dir, std::string job_id, BlockingCalls* calls);

  // Opens the log; reads what earlier attempts wrote.
  Status open();
  const std::vector<record::Event>& events() const { return events_; }
  record::JobState state() const { return state_; }
  const std::string& reason() const { return reason_; }
  int lost() const { return lost_; }  // events that could not be written to events.jsonl

  void begin_attempt(int attempt, int restart);
  // Told with the next event, if it is not what was told last.
  void remember(const record::RunMemory& memory) { memory_ = memory; }
  // Slurm has given the job a grace time: told with the next event about the whole job.
  void preempted() { preempted_ = true; }
  bool marked_preempted() const;  // once_more.h
  // Told with a final state: the next start of Slurm's, its restart number `slurm_restarts`, has nothing to run.
  void once_more(int slurm_restarts, std::string command) {
    once_more_ = slurm_restarts;
    command_ = std::move(command);
  }
  // By what this run of the job is known again; told with each attempt's beginning, and with a completion unless a
  // signal came before it: a program that ends well after a signal may have more to do.
  void this_run(std::string identity, int start, int number, std::string first_dir) {
    run_ = std::move(identity);
    start_ = start;
    number_ = number;
    first_dir_ = std::move(first_dir);
  }
  void signalled() { signalled_ = true; }
  // About the whole job.
  void job(record::JobState state, const std::string& reason, std::optional<int64_t> step = {},
           const std::string& code = {}, std::optional<int> exit = {});
  void learner(int rank, record::JobState state, const std::string& host, const std::string& reason = {},
               const std::string& code = {}, std::optional<int> exit = {});
  // It failed: with the class and signature of failure_class.h.
  void learner_failed(int rank, const std::string& host, const std::string& reason, const FailureClass& failure_class,
                      const std::string& signature, int exit);
  // About the whole job, in the state in which it is.
  void note(const std::string& text);
  // All learners know train step `step` to be saved: one event, and the comment at most each half minute.
  void saved(int64_t step);

  // Which of the job's GPUs are not used has changed: one event about the job, and the comment, where dlpolicyd reads
  // it.
  void idle_gpus(const IdleHint& idle, const std::string& text);

  // The user's own comment, once it is known; comments are held back until then.
  void set_user_comment(const std::string& text);
  // Slurm takes no comment of the job any more (slurm_cli::can_update_after_release): none is sent from now on, and
  // what is told stands in the event log alone.
  void end_comments() { job_id_.clear(); }
  // The newest comment has reached slurmctld (true without Slurm).
  bool comment_settled() const { return job_id_.empty() || (!comment_pending_ && !comment_failed_); }
  // Call about each second: tries a failed comment again, sends a delayed one.
  void tick(int64_t now_ms);

 private:
  void append(record::Event event);
  void send_comment();

  record::JobDir dir_;
  std::string job_id_;
  BlockingCalls* calls_;
  record::EventLog log_;
  bool log_open_ = false, log_failed_ = false;
  int lost_ = 0;
  std::vector<record::Event> events_;
  record::JobState state_ = record::JobState::kPending;
  std::string reason_;
  int attempt_ = 0, restart_ = 0;
  record::RunMemory memory_, memory_told_;
  int64_t saved_step_ = -1;
  IdleHint idle_;
  bool preempted_ = false;
  std::optional<int> once_more_;
  std::string command_;
  std::string run_, first_dir_;  // launcher/runs
  int start_ = 0, number_ = 1;
  bool signalled_ = false;
  std::string user_comment_;
  bool user_comment_known_ = false;
  bool comment_pending_ = false, comment_failed_ = false, comment_delayed_ = false;
  int64_t last_comment_ms_ = 0;
};

}  // namespace dl::supervise
