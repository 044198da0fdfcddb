// SPDX-License-Identifier: Apache-2.0
// What is looked at from time to time: agents that do not come or say nothing any more, learners that are slower than
// the others, GPUs that nobody uses.
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

// The kernel of a node answers for its connections also while an agent there stands still (stopped, frozen, starved),
// which can then tell neither of its learner's end nor of a hang. So its own words are waited for too: pings come each
// half second. Not where we stood still ourselves, or the job is suspended.
void Supervisor::look_for_silent_agents(int64_t now_ms) {
  constexpr int64_t kOwnPauseMs = 2000;
  const bool paused = now_ms - last_listened_ms_ > kOwnPauseMs;
  last_listened_ms_ = now_ms;
  if (silence_open_ || phase_ != Phase::kRunning) return;
  std::vector<int> silent;
  for (size_t i = 0; i < learners_.size(); ++i) {
    Learner& learner = learners_[i];
    if (paused) learner.heard_ms = now_ms;
    if (!learner.ended && learner.connection != 0 && now_ms - learner.heard_ms > 1000 * site_.agent_timeout.count())
      silent.push_back(static_cast<int>(i));
  }
  if (silent.empty()) return;
  if (!plan_.under_slurm) return agents_silent(silent);
  silence_open_ = true;
  auto found = std::make_shared<Result<slurm_cli::JobInfo>>(Error{});
  worker_->post([found, id = plan_.job_id] { *found = slurm_cli::show_job(id); },
                [this, found, silent, attempt = attempt_] {
                  silence_open_ = false;
                  if (attempt != attempt_ || phase_ != Phase::kRunning) return;
                  const bool suspended = *found && (*found)->state == "SUSPENDED";
                  if (!suspended) return agents_silent(silent);
                  for (Learner& learner : learners_) learner.heard_ms = monotonic_ms();
                });
}

void Supervisor::agents_silent(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    Learner& learner = learners_[static_cast<size_t>(rank)];
    if (learner.ended || monotonic_ms() - learner.heard_ms <= 1000 * site_.agent_timeout.count()) continue;
    learner.ended = agent_lost_ = agent_silent_ = true;
    server_->close(learner.connection);
    learner.connection = 0;
    Failure failure;
    failure.kind = Failure::Kind::kAgentLost;
    failure.asked = killing_;
    failure.text = fmt::format("its agent (dl-agent) on {} has said nothing for {}, though its node answers",
                               learner.host, format_duration(site_.agent_timeout));
    learner_failed(rank, failure);
  }
  check_attempt_over();
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
