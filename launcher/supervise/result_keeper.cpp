// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/result_keeper.h"

#include <fmt/core.h>

#include <csignal>

#include "common/base/atomic_file.h"
#include "common/base/clock.h"

namespace dl::supervise {

void ResultKeeper::store(AfterEnd after, const std::function<void()>& then) {
  stored_ = {};
  if (!plan().results || (plan().under_slurm && with_.state->killed)) return then();
  if (plan().under_slurm) store_.take_back(dir_);
  const auto limit_ms = store_limit_ms(*with_.state, with_.stops->end_ms(), unix_ms());
  if (limit_ms == 0) {
    stored_.text = "no time was left";
    stored_.late = true;
    return hand_over(after, then);
  }
  with_.journal->job(record::JobState::kStoring, "results are stored in " + dl::data::shown_place(plan().results->to));
  store_.start(plan(), dir_, limit_ms, [this, after, then](const StoreOutcome& outcome) {
    stored_ = outcome;
    hand_over(after, then);
  });
}

// Whoever cancels a job wants nothing more of it.
void ResultKeeper::hand_over(AfterEnd after, const std::function<void()>& then) {
  const bool cancelled = with_.state->stop && with_.state->stop->cause == StopCause::kCancelled;
  if (cancelled || !is_handed_over(plan(), after, stored_)) return end(then);
  store_.hand_over(plan(), dir_, with_.journal->attempt(), [this, then](const Result<std::string>& job) {
    if (job)
      stored_.job = *job;
    else
      stored_.text += ", and no job without GPUs could be submitted to store them: " + job.error().text;
    if (job)
      with_.voice->say(fmt::format("job {} stores the results: {}", *job, stored_.text));
    else
      with_.voice->warn(fmt::format("the results are not stored: {}; they are in {}", stored_.text, dir_.root()));
    end(then);
  });
}

void ResultKeeper::hurry(int signal) {
  if (!store_.under_way()) return;
  if (signal == SIGINT) return store_.hurry(0);
  if (!plan().under_slurm || (signal != SIGTERM && signal != SIGUSR2)) return;
  const RunRules& rules = with_.state->rules;
  // Slurm kills what is left after KillWait; it may have hardly begun to answer by then.
  if (signal == SIGTERM) store_.hurry(rules.kill_wait_s * 1000 - kAfterStoreMs - kLeastStoreMs);
  with_.slurm->ask([this, &rules, signal, signal_ms = unix_ms()](const SlurmJob::Answer& job) {
    if (!store_.under_way() || !job) return;
    if (const auto left_ms = hurry_ms(read_signal(rules, signal, signal_ms, job, unix_ms()), unix_ms()))
      store_.hurry(*left_ms);
  });
}

void ResultKeeper::end(const std::function<void()>& then) {
  ignore(make_directories(dir_.data(), 0700), "the file below then says what is wrong");
  const Status written =
      replace_file(dir_.stored(), stored_text(plan(), stored_, with_.journal->attempt(), unix_ms()), 0600);
  if (!written) with_.voice->warn(written.error().text);
  then();
}

std::string ResultKeeper::not_stored(const char* code) const {
  if (!plan().results || stored_.done || stored_.text.empty()) return {};
  if (!stored_.job.empty()) return fmt::format("; job {} stores the results: {}", stored_.job, stored_.text);
  return fmt::format("; the results are not stored ({}): {}", code, stored_.text);
}

}  // namespace dl::supervise
