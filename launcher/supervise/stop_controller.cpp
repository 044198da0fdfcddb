// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/stop_controller.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/base/parse.h"
#include "common/contract/checkpoint_interval.h"
#include "launcher/record/job_dir.h"

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int64_t kPatienceMs = 2000;  // for Slurm's answer, when the time limit is near
constexpr int64_t kEarlyMs = 35000;    // how early a --signal may come: Slurm looks for such jobs every 30 s
constexpr int64_t kNewSaveMs = 10000;  // how old the last save may be when the user's own signal comes
constexpr int64_t kShareOfSave = 5;    // before that signal, saves take at most a fifth of the time
constexpr int64_t kClocksMs = 2000;  // by which the clocks of the file server, the login node and this node may differ

}  // namespace

Reply reply_to(StopAnswer::Kind kind) {
  using Kind = StopAnswer::Kind;
  switch (kind) {
    case Kind::kTaken:
      return {true, "the learners save at the next train step they agree on, then the job is held"};
    case Kind::kLater:
      return {true, "no learner trains at this moment: the job is held before the next attempt"};
    case Kind::kAlready:
      return {false, "the job is being stopped already"};
    case Kind::kTooLate:
      break;
  }
  return {false, "the job is ending already"};
}

StopController::StopController(const plan::LaunchPlan& plan, int64_t signal_lead_ms)
    : under_slurm_(plan.under_slurm), checkpoint_(plan.checkpoint), signal_lead_ms_(signal_lead_ms) {
  if (plan.end_time_s) end_unix_ms_ = *plan.end_time_s * 1000;
}

void StopController::run_begins(int64_t unix_ms, bool takes_over) {
  started_unix_ms_ = unix_ms;
  requests_since_ms_ = takes_over ? 0 : unix_ms;
  job_known_ = !under_slurm_;
}

void StopController::job_is_known(const std::optional<slurm_cli::JobInfo>& job) {
  job_known_ = true;
  if (!job) return;
  if (job->end_time) limit_is(*job->end_time * 1000);
  if (job->start_time) requests_since_ms_ = std::min(requests_since_ms_, *job->start_time * 1000);
}

bool StopController::is_near(int64_t unix_ms, const SaveTimes& times) const {
  const auto end = end_of_work_ms();
  if (!end) return false;
  return unix_ms >= *end - time_limit_lead_ms(times, signal_lead_ms_, *end - started_unix_ms_);
}

// The earliest time at which the user's own signal may come. A job whose signal is due almost at its start still gets a
// quarter of its time, since otherwise it would never make progress.
std::optional<int64_t> StopController::own_signal_ms() const {
  if (own_use_ == OwnSignalUse::kNone || !end_unix_ms_) return std::nullopt;
  const int64_t quarter = (*end_unix_ms_ - started_unix_ms_) / 4;
  return std::max(*end_unix_ms_ - int64_t{1000} * own_lead_s_ - kEarlyMs, started_unix_ms_ + quarter);
}

std::optional<int64_t> StopController::end_of_work_ms() const {
  return own_use_ == OwnSignalUse::kStopsBefore ? own_signal_ms() : end_unix_ms_;
}

bool StopController::must_ask_about_limit(int64_t unix_ms, const SaveTimes& times) {
  if (asking_ || !under_slurm_ || !is_near(unix_ms, times)) return false;
  asking_ = true;
  asked_unix_ms_ = unix_ms;
  return true;
}

std::optional<StopAsked> StopController::limit_known(const std::optional<slurm_cli::JobInfo>& answer,
                                                     const std::optional<slurm_cli::JobInfo>& last, int64_t unix_ms,
                                                     const SaveTimes& times) {
  asking_ = false;
  if (answer) {
    end_unix_ms_.reset();
    if (answer->end_time) end_unix_ms_ = *answer->end_time * 1000;
  }
  if (!is_near(unix_ms, times)) return std::nullopt;
  const bool preempted = last && last->preempt_time;
  StopAsked asked;
  asked.cause = preempted ? StopCause::kPreemption : StopCause::kTimeLimit;
  asked.deadline_ms = end_of_work_ms();
  asked.who = preempted ? "preempted" : "time limit near";
  if (!preempted && own_use_ == OwnSignalUse::kStopsBefore) asked.who = "the signal of --signal is near";
  return asked;
}

std::optional<StopAsked> StopController::limit_unanswered(const std::optional<slurm_cli::JobInfo>& last,
                                                          int64_t unix_ms, const SaveTimes& times) {
  if (!asking_ || unix_ms - asked_unix_ms_ < kPatienceMs) return std::nullopt;
  return limit_known(std::nullopt, last, unix_ms, times);
}

bool StopController::save_due(Attempt* attempt, const std::vector<record::Event>& events, int64_t now_ms,
                              int64_t unix_ms) const {
  if (!checkpoint_) return false;
  int64_t every_ms = 0;
  if (checkpoint_->every_auto) {
    const record::Interruptions past = record::count_interruptions(events);
    const double running_s = past.running_s + attempt->running_s(now_ms);
    const double between_s = mean_time_to_interruption_s(running_s, past.unannounced);
    every_ms = static_cast<int64_t>(choose_interval_s(attempt->save_costs(), between_s) * 1000);
  } else if (checkpoint_->every) {
    every_ms = std::chrono::duration_cast<std::chrono::milliseconds>(*checkpoint_->every).count();
  }
  const auto signal_ms = own_signal_ms();
  if (own_use_ == OwnSignalUse::kSavesBefore && signal_ms) {
    const SaveTimes times = attempt->save_times();
    if (unix_ms >= *signal_ms - time_needed_ms(times)) {
      const int64_t new_ms = std::max(kNewSaveMs, kShareOfSave * static_cast<int64_t>(times.save_ms));
      every_ms = every_ms == 0 ? new_ms : std::min(every_ms, new_ms);
    }
  }
  if (every_ms == 0) return false;
  if (!attempt->save_due(now_ms, every_ms)) return false;
  attempt->save_tried(now_ms);  // also if the learners do not save now: the next try comes an interval later
  return true;
}

Result<std::optional<StopAsked>> StopController::take_request(const std::string& path) const {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return std::optional<StopAsked>();
  const int64_t written_ms = static_cast<int64_t>(file.st_mtim.tv_sec) * 1000 + file.st_mtim.tv_nsec / 1'000'000;
  if (written_ms + kClocksMs < requests_since_ms_) {
    if (!job_known_) return std::optional<StopAsked>();
    ::unlink(path.c_str());
    return Error{Errc::kInvalid, "request.json is older than this run of the job, so it was removed and not obeyed"};
  }
  auto request = record::read_request(path);
  ::unlink(path.c_str());
  if (!request) return std::move(request).error();
  if (request->action != "pause")
    return Error{Errc::kInvalid,
                 "request.json has the action '" + printable(request->action, 100) + "'; allowed: pause"};
  StopAsked asked;
  asked.cause = StopCause::kPause;
  asked.who = request->reason.empty() ? "dlctl pause" : request->reason;
  return std::optional<StopAsked>(std::move(asked));
}

}  // namespace dl::supervise
