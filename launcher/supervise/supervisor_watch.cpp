// SPDX-License-Identifier: Apache-2.0
// What is looked at from time to time: agents that do not come, learners that are slower than the others, GPUs that
// nobody uses.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/common/parse.h"
#include "launcher/supervise/exit_codes.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

// The time of the agents is up.
void Supervisor::agents_missing() {
  Failure failure;
  failure.kind = Failure::Kind::kNoAgent;
  failure.text = fmt::format("its agent has not connected within {}", format_duration(site_.agent_timeout));
  give_up_learners(failure, /*only_silent=*/true);
}

// Only said, never acted upon: a slow learner may be a shared node or a full disk, and a restart costs everybody's
// time.
void Supervisor::look_for_stragglers() {
  std::vector<std::optional<double>> times;
  times.reserve(learners_.size());
  for (const Learner& learner : learners_) times.push_back(learner.ended ? std::nullopt : learner.times.median_ms());
  for (const Straggler& straggler : slow_.look(find_stragglers(times))) {
    const Learner& learner = learners_[static_cast<size_t>(straggler.rank)];
    const std::string note = describe(straggler);
    journal_->learner(straggler.rank, learner.state, learner.host, note);
    say(fmt::format("warning: learner {} on {} is {}", straggler.rank, learner.host, note));
  }
}

// Often enough that use now and then is not missed over the time after which a GPU counts as idle.
int64_t Supervisor::gpu_look_ms() const {
  constexpr int64_t kOften = 1000, kSeldom = 5000, kLooks = 20;
  return site_.idle.after.count() == 0 ? 0 : std::clamp(site_.idle.after.count() * 1000 / kLooks, kOften, kSeldom);
}

// Said to its owner, and handed on by the comment; whether somebody else may have the GPUs is dlpolicyd's to decide.
void Supervisor::look_for_idle_gpus() {
  const int64_t now = monotonic_ms();
  const IdleGpus::News news = idle_.look(now);
  if (news.idle.empty() && news.used_again.empty() && news.unknown.empty()) return;
  const int each = plan_.gpus_per_learner;
  std::string text;
  if (!news.unknown.empty()) text = unknown_text(news.unknown, each);
  if (!news.used_again.empty()) text = used_again_text(news.used_again, each);
  if (!news.idle.empty()) {
    text = unused_text(news.idle, each, idle_.unused_ms(news.idle, now));
    say("warning: " + text);
  }
  const std::vector<int> idle = idle_.idle();
  journal_->idle_gpus({static_cast<int>(idle.size()) * each, (unix_ms() - idle_.unused_ms(idle, now)) / 1000}, text);
}

std::string Supervisor::note_of(size_t rank) const {
  const int number = static_cast<int>(rank);
  std::string note = slow_.note(rank);
  if (idle_.is_idle(number))
    note += (note.empty() ? "" : "; ") +
            unused_text({number}, plan_.gpus_per_learner, idle_.unused_ms({number}, monotonic_ms()));
  return note;
}

}  // namespace dl::supervise
