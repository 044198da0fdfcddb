// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/journal.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include "launcher/record/job_runs.h"
#include "launcher/supervise/once_more.h"
#include "launcher/supervise/slurm_job.h"

namespace dl::supervise {
namespace {
constexpr int64_t kRetryMs = 3000;
constexpr int64_t kStepCommentMs = 30000;
}  // namespace

Journal::Journal(record::JobDir dir, SlurmJob* slurm) : dir_(std::move(dir)), slurm_(slurm) {}

Status Journal::open() {
  DL_TRY_ASSIGN(record::EventHistory history, record::read_events(dir_.events()));
  events_ = std::move(history.events);
  memory_told_ = record::remembered(events_);
  record::JobSummary summary = record::summarise(events_);
  attempt_ = summary.attempts;
  saved_step_ = summary.newest_step;
  if (summary.state) state_ = *summary.state;
  DL_TRY_ASSIGN(log_, record::EventLog::open(dir_.events()));
  log_open_ = true;
  return {};
}

void Journal::append(record::Event event) {
  event.attempt = attempt_;
  if (restart_ > 0) event.restart = restart_;
  if (!(memory_ == memory_told_)) event.memory = memory_;
  events_.push_back(event);
  if (!log_open_) return;
  Status written = log_.append(std::move(event));
  if (written) memory_told_ = memory_;  // otherwise the next event carries it
  if (!written && !log_failed_) std::fprintf(stderr, "dlrun: %s\n", written.error().text.c_str());
  log_failed_ = !written;
  lost_ += written ? 0 : 1;
}

void Journal::begin_attempt(int attempt, int restart) {
  attempt_ = attempt;
  restart_ = restart;
  idle_ = {};
  pace_ = {};
  learners_use_.clear();
  signalled_ = false;
}

bool Journal::marked_preempted() const {
  return preempted_ || is_marked_preempted(events_);
}

void Journal::job(record::JobState state, const std::string& reason, std::optional<int64_t> step,
                  const std::string& code, std::optional<int> exit) {
  if (!record::transition_allowed(state_, state) && state != state_ &&
      !(record::is_final(state_) && state == record::JobState::kDeploy)) {
    std::fprintf(stderr, "dlrun: a fault of dlrun: state %s cannot follow %s, and is not recorded\n",
                 record::state_name(state), record::state_name(state_));
    return;
  }
  state_ = state;
  reason_ = reason;
  if (step && *step < 0) step.reset();
  if (step) saved_step_ = std::max(saved_step_, *step);
  record::Event event;
  event.state = state;
  event.reason = reason;
  event.step = step;
  event.code = code;
  event.exit = exit;
  event.preempted = std::exchange(preempted_, false);
  event.use = std::exchange(use_, std::nullopt);
  if (record::is_final(state) && once_more_) {
    event.once_more = std::exchange(once_more_, std::nullopt);
    event.command = command_;
  }
  if (!run_.empty() && (state == record::JobState::kDeploy || (state == record::JobState::kCompleted && !signalled_))) {
    event.run = run_;
    event.start = start_;
  }
  append(std::move(event));
  send_comment();
}

void Journal::learner_used(int rank, std::map<std::string, double> numbers) {
  if (!numbers.empty()) learners_use_[rank] = {{}, std::move(numbers)};
}

void Journal::append_of_learner(record::Event event) {
  if (const auto used = learners_use_.find(*event.learner); used != learners_use_.end()) {
    event.use = std::move(used->second);
    learners_use_.erase(used);
  }
  append(std::move(event));
}

void Journal::learner(int rank, record::JobState state, const std::string& host, const std::string& reason,
                      const std::string& code, std::optional<int> exit) {
  record::Event event;
  event.learner = rank;
  event.state = state;
  event.host = host;
  event.reason = reason;
  event.code = code;
  event.exit = exit;
  append_of_learner(std::move(event));
}

void Journal::learner_failed(int rank, const std::string& host, const std::string& reason,
                             const FailureClass& failure_class, const std::string& signature, int exit) {
  record::Event event;
  event.learner = rank;
  event.state = record::JobState::kFailed;
  event.host = host;
  event.reason = reason;
  event.code = failure_class.code;
  event.exit = exit;
  event.failure = failure_class.name;
  event.signature = signature;
  append_of_learner(std::move(event));
}

void Journal::note(const std::string& text) {
  record::Event event;
  event.state = state_;
  event.reason = text;
  event.preempted = std::exchange(preempted_, false);
  append(std::move(event));
}

void Journal::saved(int64_t step) {
  if (step <= saved_step_) return;
  saved_step_ = step;
  record::Event event;
  event.state = record::JobState::kProcessing;
  event.reason = fmt::format("saved at train step {}", step);
  event.step = step;
  append(std::move(event));
  comment_delayed_ = true;
}

void Journal::idle_gpus(const IdleHint& idle, const std::string& text) {
  idle_ = idle;
  note(text);
  comment_delayed_ = true;
}

void Journal::scale(const std::string& hint) {
  if (hint == scale_) return;
  scale_ = hint;
  comment_delayed_ = true;
}

void Journal::vote(std::optional<int> wanted) {
  if (wanted == vote_) return;
  vote_ = wanted;
  comment_delayed_ = true;
}

void Journal::set_user_comment(const std::string& text) {
  user_comment_ = record::user_part(text);
  user_comment_known_ = true;
  send_comment();
}

void Journal::send_comment() {
  if (slurm_ == nullptr) return;
  comment_pending_ = true;
  if (!user_comment_known_) return;
  comment_delayed_ = false;
  record::JobComment comment;
  comment.user_text = user_comment_;
  comment.state = state_;
  comment.attempt = attempt_;
  comment.step = saved_step_;
  if (state_ == record::JobState::kProcessing) comment.idle = idle_;
  comment.pace = pace_;
  comment.scale = scale_;
  comment.vote = vote_;
  comment.dir = dir_.root();
  comment.reason = reason_;
  const auto write = [comment, first = first_dir_, own = dir_.root(), number = number_](const SlurmJob::Send& send) {
    // This runs outside the loop, because the events of other runs may be long and their file system slow.
    const auto others = [&]() -> std::vector<record::RunState> {
      if (first.empty()) return {};
      return record::other_runs(first, own);
    };
    return record::write_while_changed(others, [&](const std::vector<record::RunState>& states) {
      record::JobComment whole = comment;
      record::tell_of_all(states, number, first, &whole);
      return send(record::format_comment(whole));
    });
  };
  slurm_->set_comment(write, [this](bool done) {
    comment_pending_ = false;
    comment_failed_ = !done;
  });
}

void Journal::tick(int64_t now_ms) {
  if (slurm_ == nullptr) return;
  bool retry = comment_failed_ && !comment_pending_ && now_ms - last_comment_ms_ >= kRetryMs;
  bool delayed = comment_delayed_ && now_ms - last_comment_ms_ >= kStepCommentMs;
  if (!retry && !delayed) return;
  last_comment_ms_ = now_ms;
  send_comment();
}

}  // namespace dl::supervise
