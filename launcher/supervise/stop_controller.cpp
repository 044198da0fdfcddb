// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/stop_controller.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/contract/checkpoint_interval.h"
#include "launcher/record/job_dir.h"

namespace dl::supervise {
namespace {

constexpr int64_t kClocksMs = 2000;  // by which the clocks of file server, login node and this one may differ

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
  if (!end_unix_ms_) return false;
  return unix_ms >= *end_unix_ms_ - time_limit_lead_ms(times, signal_lead_ms_, *end_unix_ms_ - started_unix_ms_);
}

bool StopController::must_ask_about_limit(int64_t unix_ms, const SaveTimes& times) {
  if (asking_ || !under_slurm_ || !is_near(unix_ms, times)) return false;
  asking_ = true;
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
  asked.deadline_ms = end_unix_ms_;
  asked.who = preempted ? "preempted" : "time limit near";
  return asked;
}

bool StopController::save_due(Attempt* attempt, const std::vector<record::Event>& events, int64_t now_ms) const {
  if (!checkpoint_) return false;
  int64_t every_ms = 0;
  if (checkpoint_->every_auto) {
    const record::Interruptions past = record::count_interruptions(events);
    const double running_s = past.running_s + attempt->running_s(now_ms);
    const double between_s = mean_time_to_interruption_s(running_s, past.unannounced);
    every_ms = static_cast<int64_t>(choose_interval_s(attempt->save_costs(), between_s) * 1000);
  } else if (checkpoint_->every) {
    every_ms = std::chrono::duration_cast<std::chrono::milliseconds>(*checkpoint_->every).count();
  } else {
    return false;
  }
  if (!attempt->save_due(now_ms, every_ms)) return false;
  attempt->save_tried(now_ms);  // the next try, should this one be withdrawn
  return true;
}

Result<std::optional<StopAsked>> StopController::take_request(const std::string& path) const {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return std::optional<StopAsked>();
  const int64_t written_ms = static_cast<int64_t>(file.st_mtim.tv_sec) * 1000 + file.st_mtim.tv_nsec / 1'000'000;
  if (written_ms + kClocksMs < requests_since_ms_) {
    if (!job_known_) return std::optional<StopAsked>();
    ::unlink(path.c_str());
    return Error{Errc::kInvalid, "request.json is older than this run of the job and was removed, not obeyed"};
  }
  auto request = record::read_request(path);
  ::unlink(path.c_str());
  if (!request) return std::move(request).error();
  if (request->action != "pause") return Error{Errc::kInvalid, "request.json asks for something unknown"};
  StopAsked asked;
  asked.cause = StopCause::kPause;
  asked.who = request->reason.empty() ? "dlctl pause" : request->reason;
  return std::optional<StopAsked>(std::move(asked));
}

}  // namespace dl::supervise
