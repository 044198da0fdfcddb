// SPDX-License-Identifier: Apache-2.0
// Data before the learners of an attempt start, and results after its end: DOWNLOADING and STORING.
#include <fmt/core.h>

#include <csignal>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/count.h"
#include "launcher/record/sources_file.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;
using record::JobState;

// All agents have come: one of each node fetches, and the learners start once all is there. Nothing of the learners has
// begun, so a stop in the meantime ends as one before all agents have come.
void Supervisor::fetch_data() {
  Status ready = make_directories(dir_.data(), 0700);
  if (ready) ready = record::write_sources(dir_.sources(), plan().data->sources);
  if (!ready) return agents_not_started(ready.error().text);
  const auto asked = data_.ask(plan(), dir_);
  agents_->all_came();
  journal_->job(JobState::kDownloading,
                fmt::format("data is fetched to {}", count_text(static_cast<int64_t>(asked.size()), "node")));
  for (const auto& [rank, fetch] : asked) agents_->tell(rank, fetch);
}

void Supervisor::on_fetched(int rank, const Fetched& fetched) {
  const bool before = data_.ready();
  auto failure = data_.heard(rank, fetched);
  if (failure && state_.phase == Phase::kStarting) {
    learner_failed(rank, *std::move(failure));
    handle(EndLearners{0});
    return check_attempt_over();
  }
  if (before || !data_.ready() || state_.phase != Phase::kStarting) return;
  journal_->note("the data is there");
  look_whether_ready();
}

std::string Supervisor::data_text() const {
  return results_->under_way() ? results_->text() : data_.text();
}

// Stores what the run has, if it is to be stored and time is left, and then goes on with the end that was decided.
void Supervisor::store_results(AfterEnd after, const std::function<void()>& then) {
  stored_ = {};
  if (!plan().results || (plan().under_slurm && state_.killed)) return then();
  if (plan().under_slurm) results_->take_back(dir_);
  const auto limit_ms = store_limit_ms(state_, stops_.end_ms(), unix_ms());
  if (limit_ms == 0) {
    stored_.text = "no time was left";
    stored_.late = true;
    return hand_over_store(after, then);
  }
  journal_->job(JobState::kStoring, "results are stored in " + dl::data::shown_place(plan().results->to));
  results_->start(plan(), dir_, limit_ms, [this, after, then](const StoreOutcome& outcome) {
    stored_ = outcome;
    hand_over_store(after, then);
  });
}

// Whoever cancels a job wants nothing more of it.
void Supervisor::hand_over_store(AfterEnd after, const std::function<void()>& then) {
  const bool cancelled = state_.stop && state_.stop->cause == StopCause::kCancelled;
  if (cancelled || !is_handed_over(plan(), after, stored_)) return end_store(then);
  results_->hand_over(plan(), dir_, attempts_, [this, then](const Result<std::string>& job) {
    if (job)
      stored_.job = *job;
    else
      stored_.text += ", and no job without GPUs could be submitted to store them: " + job.error().text;
    if (job)
      voice_.say(fmt::format("job {} stores the results: {}", *job, stored_.text));
    else
      voice_.warn(fmt::format("the results are not stored: {}; they are in {}", stored_.text, dir_.root()));
    end_store(then);
  });
}

// A signal has come while results are stored: the end of the run is decided, but the store has to keep the deadline of
// whoever wants the nodes now.
void Supervisor::hurry_store(int signal) {
  if (!results_->under_way()) return;
  if (signal == SIGINT) return results_->hurry(0);
  if (!plan().under_slurm || (signal != SIGTERM && signal != SIGUSR2)) return;
  // Slurm kills what is left after KillWait; it may have hardly begun to answer by then.
  if (signal == SIGTERM) results_->hurry(state_.rules.kill_wait_s * 1000 - kAfterStoreMs - kLeastStoreMs);
  slurm_->ask([this, signal, signal_ms = unix_ms()](const SlurmJob::Answer& job) {
    if (!results_->under_way() || !job) return;
    if (const auto left_ms = hurry_ms(read_signal(state_.rules, signal, signal_ms, job, unix_ms()), unix_ms()))
      results_->hurry(*left_ms);
  });
}

// A job that was cancelled while its results were stored must not come back.
void Supervisor::put_back_unless_cancelled(const PutBack& back) {
  if (!stored_.tried || back.at_once || !plan().under_slurm) return put_back(back);
  slurm_->ask([this, back](const SlurmJob::Answer& job) {
    const NoticeReading reading = read_signal(state_.rules, SIGTERM, unix_ms(), job, unix_ms());
    if (!job || !reading.ends || reading.cause != StopCause::kCancelled) return put_back(back);
    put_back_error_ = "it was cancelled while its results were stored";
    handle(BackInQueue{false});
  });
}

void Supervisor::end_store(const std::function<void()>& then) {
  ignore(make_directories(dir_.data(), 0700), "the file below then says what is wrong");
  const Status written = replace_file(dir_.stored(), stored_text(plan(), stored_, attempts_, unix_ms()), 0600);
  if (!written) voice_.warn(written.error().text);
  then();
}

// What is added to the reason of an end whose results are not stored.
std::string Supervisor::not_stored(const char* code) const {
  if (!plan().results || stored_.done || stored_.text.empty()) return {};
  if (!stored_.job.empty()) return fmt::format("; job {} stores the results: {}", stored_.job, stored_.text);
  return fmt::format("; the results are not stored ({}): {}", code, stored_.text);
}

}  // namespace dl::supervise
