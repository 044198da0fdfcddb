// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/notice.h"

#include <csignal>
#include <cstdlib>
#include <string_view>

#include "common/base/parse.h"

namespace dl::supervise {
namespace {

// Slurm may send --signal up to a minute early; another minute allows for clocks that differ.
constexpr int64_t kEarlyS = 120;
constexpr int64_t kClockSlackMs = 5000;
constexpr int64_t kLatestS = int64_t{1} << 40;
constexpr int64_t kMostNodesOffered = 10000;

bool starts_with(const std::string& text, const char* start) {
  return text.rfind(start, 0) == 0;
}

struct Key {
  StopCause cause;
  const char* key;
};
constexpr Key kKeys[] = {
    {StopCause::kPreemption, "preemption"},  {StopCause::kYield, "yield"},         {StopCause::kResize, "resize"},
    {StopCause::kTimeLimit, "time limit"},   {StopCause::kTogether, "together"},   {StopCause::kPause, "pause"},
    {StopCause::kOtherNodes, "other nodes"}, {StopCause::kInterrupt, "interrupt"}, {StopCause::kCancelled, "cancel"},
    {StopCause::kSlurmRequeue, "requeue"},   {StopCause::kLeaseLost, "lease"}};

// The value of this key, such as "yields=", in a label; empty: none.
std::string word_of(const std::string& label, const char* key) {
  if (!starts_with(label, "dl:1 ")) return "";
  // The text behind " | " was written by somebody else.
  for (const std::string& word : split(label.substr(0, label.find(" | ")), ' '))
    if (starts_with(word, key)) return word.substr(std::string_view(key).size());
  return "";
}

std::string yields_word(const std::string& label) {
  return word_of(label, "yields=");
}

}  // namespace

std::optional<int64_t> yield_deadline_s(const std::string& label) {
  const std::string word = yields_word(label);
  const size_t at = word.find('@');
  const size_t colon = word.find(':', at == std::string::npos ? 0 : at);
  if (at == std::string::npos || colon == std::string::npos) return std::nullopt;
  const auto deadline = parse_int(std::string_view(word).substr(at + 1, colon - at - 1), 1, kLatestS);
  if (!deadline) return std::nullopt;
  return *deadline;
}

std::string yield_claimant(const std::string& label) {
  const std::string word = yields_word(label);
  return word.substr(0, word.find('@'));
}

std::optional<NodeOffer> node_offer(const std::string& label) {
  const std::string word = word_of(label, "grow=");
  const size_t at = word.find('@');
  if (at == std::string::npos) return std::nullopt;
  const auto nodes = parse_int(std::string_view(word).substr(0, at), 1, kMostNodesOffered);
  const auto offered_s = parse_int(std::string_view(word).substr(at + 1), 1, kLatestS);
  if (!nodes || !offered_s) return std::nullopt;
  return NodeOffer{static_cast<int>(*nodes), *offered_s};
}

const char* stop_cause_name(StopCause cause) {
  switch (cause) {
    case StopCause::kPreemption:
      return "preempted";
    case StopCause::kYield:
      return "lent GPUs are taken back";
    case StopCause::kResize:
      return "resized";
    case StopCause::kTimeLimit:
      return "time limit";
    case StopCause::kTogether:
      return "put back with another dlrun of the job";
    case StopCause::kOtherNodes:
      return "other nodes";
    case StopCause::kPause:
      return "paused";
    case StopCause::kInterrupt:
      return "interrupted";
    case StopCause::kCancelled:
      return "cancelled";
    case StopCause::kSlurmRequeue:
      return "requeued by Slurm";
    case StopCause::kLeaseLost:
      return "checkpoint directory lost to another job";
  }
  return "stopped";
}

const char* stop_cause_key(StopCause cause) {
  for (const Key& row : kKeys)
    if (row.cause == cause) return row.key;
  return "";
}

std::optional<StopCause> parse_stop_cause(const std::string& key) {
  for (const Key& row : kKeys)
    if (key == row.key) return row.cause;
  return std::nullopt;
}

NoticeReading read_notice(const NoticeInput& input) {
  NoticeReading reading;
  const int64_t kill_ms = input.signal_ms + input.kill_wait_s * 1000;
  auto stop = [&](StopCause cause, std::optional<int64_t> deadline_ms) {
    reading.kind = NoticeReading::Kind::kStop;
    reading.cause = cause;
    reading.deadline_ms = deadline_ms;
    return reading;
  };
  if (!input.job) {
    if (input.signal == SIGTERM) return stop(StopCause::kPreemption, kill_ms);
    reading.kind = NoticeReading::Kind::kSaveNow;
    return reading;
  }
  const slurm_cli::JobInfo& job = *input.job;
  const bool back = job.restarts > input.restart_count || job.state == "PENDING" || starts_with(job.state, "REQUEUE");
  reading.ends =
      back || job.state == "COMPLETING" || starts_with(job.state, "CANCELLED") || starts_with(job.state, "TIMEOUT");
  if (back) return stop(StopCause::kSlurmRequeue, kill_ms);
  if (reading.ends) {
    // scontrol shows COMPLETING for cancelled jobs as well as for those that reached their time limit.
    bool timed_out = job.start_time && job.time_limit_s &&
                     (*job.start_time + *job.time_limit_s) * 1000 <= input.now_ms + kClockSlackMs;
    return stop(timed_out ? StopCause::kTimeLimit : StopCause::kCancelled, kill_ms);
  }
  // A deadline that has passed was meant for an earlier attempt: Slurm requeues a job that misses its deadline.
  if (const auto deadline = yield_deadline_s(job.admin_comment); deadline && *deadline * 1000 > input.now_ms) {
    const std::string claimant = yield_claimant(job.admin_comment);
    const bool itself = !claimant.empty() && (claimant == job.job_id || claimant == job.number);
    return stop(itself ? StopCause::kResize : StopCause::kYield, *deadline * 1000);
  }
  int64_t end_ms = job.end_time ? *job.end_time * 1000 : 0;
  // A time before the job's start is that of an earlier preemption.
  const bool preempted = job.preempt_time && !(job.start_time && *job.preempt_time < *job.start_time);
  if (preempted || starts_with(job.state, "PREEMPTED"))
    return stop(StopCause::kPreemption, end_ms > input.now_ms ? end_ms : kill_ms);
  if (end_ms > 0 && end_ms - input.now_ms <= (input.signal_lead_s + kEarlyS) * 1000) {
    // The SIGTERM with which Slurm itself ends the job comes with another state. This one is of a script that ends the
    // training before the limit, and waits for that: trap 'kill -TERM $pid; wait; scontrol requeue ...' USR1
    if (input.signal == SIGTERM) return stop(StopCause::kTimeLimit, end_ms);
    reading.kind = NoticeReading::Kind::kWatchTimeLimit;
    reading.cause = StopCause::kTimeLimit;
    reading.deadline_ms = end_ms;
    return reading;
  }
  if (input.signal == SIGUSR2) {
    const auto offer = node_offer(job.admin_comment);
    const bool fresh = offer && offer->offered_s != input.taken_s &&
                       std::abs(input.now_ms - offer->offered_s * 1000) <= kOfferS * 1000;
    reading.kind = fresh ? NoticeReading::Kind::kGrow : NoticeReading::Kind::kSaveNow;
    if (fresh) reading.offer = offer;
    return reading;
  }
  return stop(StopCause::kInterrupt, std::nullopt);
}

}  // namespace dl::supervise
