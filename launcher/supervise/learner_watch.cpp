// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/learner_watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "launcher/supervise/own_output.h"

namespace dl::supervise {

using namespace protocol;

using record::JobState;

void LearnerWatch::begin_attempt(Journal* journal, int attempt, size_t learners, int gpus_each) {
  journal_ = journal;
  attempt_ = attempt;
  gpus_each_ = gpus_each;
  slow_ = SlowLearners(learners);
  idle_ = IdleGpus(learners, site_);
  votes_.begin_attempt(learners);
}

int64_t LearnerWatch::gpu_look_ms() const {
  constexpr int64_t kOften = 1000, kSeldom = 5000, kLooks = 20;
  return site_.after.count() == 0 ? 0 : std::clamp<int64_t>(site_.after.count() * 1000 / kLooks, kOften, kSeldom);
}

// The loss is reported in dlrun's output, in the comment, and in events.jsonl if there is room for it.
void LearnerWatch::log_lost(int rank, const LogLost& lost) {
  tell_loss(log_losses_.add(attempt_, rank, lost));
  tell_loss(log_losses_.add_output(lost.output));
}

void LearnerWatch::look_at_own_output(bool quiet) {
  if (!quiet) tell_loss(log_losses_.add_output(why_full(STDOUT_FILENO, "standard output")));
  tell_loss(log_losses_.add_output(voice_->error()));
}

void LearnerWatch::tell_loss(const std::string& news) {
  if (news.empty()) return;
  voice_->warn(news);
  if (journal_ != nullptr && journal_->state() == JobState::kProcessing) journal_->job(JobState::kProcessing, news);
}

void LearnerWatch::look(const std::vector<Learner>& learners, int64_t now_ms, int64_t now_unix_ms) {
  look_for_stragglers(learners);
  look_for_idle_gpus(now_ms, now_unix_ms);
  tell_loss(log_losses_.add_output(voice_->error()));
}

// Nothing is done about stragglers: the cause may be a shared node or a full disk, and a restart costs everybody's
// time.
void LearnerWatch::look_for_stragglers(const std::vector<Learner>& learners) {
  std::vector<std::optional<double>> times;
  times.reserve(learners.size());
  for (const Learner& learner : learners) times.push_back(learner.ended ? std::nullopt : learner.times.median_ms());
  for (const Straggler& straggler : slow_.look(find_stragglers(times))) {
    const Learner& learner = learners[static_cast<size_t>(straggler.rank)];
    const std::string note = describe(straggler);
    journal_->learner(straggler.rank, learner.state, learner.host, note);
    voice_->say(fmt::format("warning: learner {} on {} is {}", straggler.rank, learner.host, note));
  }
}

// Whether another job may have idle GPUs is dlpolicyd's decision, which reads the job's comment.
void LearnerWatch::look_for_idle_gpus(int64_t now_ms, int64_t now_unix_ms) {
  const IdleGpus::News news = idle_.look(now_ms);
  if (news.idle.empty() && news.used_again.empty() && news.unknown.empty()) return;
  std::string text;
  if (!news.unknown.empty()) text = unknown_text(news.unknown, gpus_each_);
  if (!news.used_again.empty()) text = used_again_text(news.used_again, gpus_each_);
  if (!news.idle.empty()) {
    text = unused_text(news.idle, gpus_each_, idle_.unused_ms(news.idle, now_ms));
    voice_->say("warning: " + text);
  }
  const std::vector<int> idle = idle_.idle();
  journal_->idle_gpus(
      {static_cast<int>(idle.size()) * gpus_each_, (now_unix_ms - idle_.unused_ms(idle, now_ms)) / 1000}, text);
}

std::string LearnerWatch::note(int rank, int64_t now_ms) const {
  std::string note = slow_.note(static_cast<size_t>(rank));
  const auto add = [&note](const std::string& text) {
    if (!text.empty()) note += (note.empty() ? "" : "; ") + text;
  };
  if (idle_.is_idle(rank)) add(unused_text({rank}, gpus_each_, idle_.unused_ms({rank}, now_ms)));
  add(log_losses_.note(attempt_, rank));
  return note;
}

}  // namespace dl::supervise
