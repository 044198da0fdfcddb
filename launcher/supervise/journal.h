// SPDX-License-Identifier: Apache-2.0
// Everything that is written down of a run: events.jsonl and, under Slurm, the job's comment. Refuses transitions that
// the table does not allow. A comment that cannot be set is tried again; training never waits for it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_dir.h"
#include "launcher/supervise/failure_class.h"

namespace dl::supervise {

class SlurmJob;

class Journal {
 public:
  // slurm: sets the comment; nullptr without Slurm.
  Journal(record::JobDir dir, SlurmJob* slurm);

  // Reads what earlier attempts wrote, and opens the log. Fails if events.jsonl cannot be read or opened.
  Status open();
  const std::vector<record::Event>& events() const { return events_; }
  record::JobState state() const { return state_; }
  const std::string& reason() const { return reason_; }
  int lost() const { return lost_; }  // events that could not be written to events.jsonl

  void begin_attempt(int attempt, int restart);
  int attempt() const { return attempt_; }  // the newest, also of earlier dlruns
  // Written with the next event if it differs from what was written last.
  void remember(const record::RunMemory& memory) { memory_ = memory; }
  // The same for a function that changes what is remembered now.
  template <typename Change>
  void change_memory(Change change) {
    change(&memory_);
  }
  const record::RunMemory& memory() const { return memory_; }
  // Slurm has given the job a grace time: written with the next event about the whole job.
  void preempted() { preempted_ = true; }
  bool marked_preempted() const;  // once_more.h
  // Written with a final state: Slurm will start the job once more, as restart number `slurm_restarts`, with nothing to
  // run.
  void once_more(int slurm_restarts, std::string command) {
    once_more_ = slurm_restarts;
    command_ = std::move(command);
  }
  // What identifies this run in later starts of the job. Written when an attempt begins, and when the run completes
  // unless a signal came before: a program that ends well after a signal may have more to do.
  void this_run(std::string identity, int start, int number, std::string first_dir) {
    run_ = std::move(identity);
    start_ = start;
    number_ = number;
    first_dir_ = std::move(first_dir);
  }
  void signalled() { signalled_ = true; }  // a signal came in this attempt
  // About the whole job.
  void job(record::JobState state, const std::string& reason, std::optional<int64_t> step = {},
           const std::string& code = {}, std::optional<int> exit = {});
  void learner(int rank, record::JobState state, const std::string& host, const std::string& reason = {},
               const std::string& code = {}, std::optional<int> exit = {});
  // A learner failed; failure_class and signature: see failure_class.h.
  void learner_failed(int rank, const std::string& host, const std::string& reason, const FailureClass& failure_class,
                      const std::string& signature, int exit);
  // Writes a text about the whole job, whose state does not change.
  void note(const std::string& text);
  // The checkpoint of train step `step` is committed: writes an event if it is the newest, and the comment at most each
  // half minute.
  void saved(int64_t step);

  // The unused GPUs of the job have changed: writes one event about the job, and the comment, which dlpolicyd reads.
  void idle_gpus(const IdleHint& idle, const std::string& text);

  // How far learners have trained and how fast: comes with the next comment, and is no reason to write one.
  void pace(const PaceHint& hint) { pace_ = hint; }

  // The measured speeds of an elastic job have changed (common/scaling/scale_hint.h): writes the comment, which
  // dlpolicyd reads, at most each half minute.
  void scale(const std::string& hint);

  // The number of learners that the votes of an elastic job ask for; none: nobody has voted, or the votes no longer
  // count. Comes with the comment as scale() does.
  void vote(std::optional<int> wanted);

  // What the learners have used in all attempts of this dlrun; written with the next event about the whole job.
  void used(record::UsedInAll use) { use_ = std::move(use); }
  // What a learner has used in this attempt, by name; written with the next event about it.
  void learner_used(int rank, std::map<std::string, double> numbers);

  // To be called when the user's own comment is known; comments are held back until then.
  void set_user_comment(const std::string& text);
  // Slurm accepts no comment for the job any more (slurm_cli::can_update_after_release): from now on none is sent, and
  // only the event log is written.
  void end_comments() { slurm_ = nullptr; }
  // What is to be remembered is in events.jsonl. False: the newest event could not be written.
  bool memory_written() const { return memory_ == memory_told_; }
  // The newest comment has reached slurmctld (true without Slurm).
  bool comment_settled() const { return slurm_ == nullptr || (!comment_pending_ && !comment_failed_); }
  // To be called about each second: tries a failed comment again, sends a delayed one.
  void tick(int64_t now_ms);

 private:
  void append(record::Event event);
  void append_of_learner(record::Event event);
  void send_comment();

  record::JobDir dir_;
  SlurmJob* slurm_;
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
  PaceHint pace_;
  std::string scale_;
  std::optional<int> vote_;
  std::optional<record::UsedInAll> use_;
  std::map<int, record::UsedInAll> learners_use_;
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
