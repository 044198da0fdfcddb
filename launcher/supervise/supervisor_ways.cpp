// SPDX-License-Identifier: Apache-2.0
// Acts on what AgentFleet, SilenceWatch and PmixServers conclude: agents that do not come, or are silent, and
// connections that break or are resumed.
#include <fmt/core.h>

#include "launcher/supervise/repeat.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int kQuickQuestions = 4;
constexpr uint64_t kQuickMs = 4;

}  // namespace

// A connection is broken, whether or not the agent may connect again.
void Supervisor::on_broken(ConnectionId id, const std::string& why) {
  if (growth_->broken(id, why)) return;
  if (pmix_->knows(id)) return follow(pmix_->broken(id, why, now_for_pmix()));
  const auto loss = agents_->broken(id, why, state_.ending(), awake_ms(), attempt_.learners());
  if (loss) return follow(loss);
  if (!agents_->rank_of(id)) return;
  repeat(&loop_, kQuickMs, [this, id, left = kQuickQuestions + 1]() mutable {
    if (state_.finished() || --left < 0) return true;
    return left < kQuickQuestions && !agents_->ask_again(id);
  });
}

void Supervisor::on_resumed(ConnectionId id) {
  pmix_->resumed(id);
  const auto resumed = agents_->resumed(id, awake_ms());
  if (!resumed) return;
  const Learner& learner = attempt_.learner(resumed->rank);
  journal_->learner(resumed->rank, learner.state, learner.host, resumed->text);
  voice_.say(fmt::format("learner {} on {}: {}", resumed->rank, learner.host, resumed->text));
}

void Supervisor::follow(const std::optional<AgentLoss>& loss) {
  if (!loss) return;
  attempt_.lose_agent(loss->rank);
  // A companion that lost an agent is given back as a whole: Slurm may have ended it.
  const bool own = nodes_.companion_of(loss->rank).empty();
  if (loss->takes_node() || !own) nodes_.lose(loss->rank);
  if (loss->takes_node() && own) {
    journal_->change_memory([&](record::RunMemory* memory) { memory->lost.push_back(nodes_.name_of(loss->rank)); });
  }
  // No learner starts before this time. It is also recorded as wall-clock time, for a dlrun that takes over.
  if (loss->fence_until_ms && nodes_.raise_fence(*loss->fence_until_ms))
    journal_->change_memory(
        [&](record::RunMemory* memory) { memory->fence_unix_ms = unix_ms() + *loss->fence_until_ms - awake_ms(); });
  const Failure failure = failure_of(*loss, attempt_.learner(loss->rank).host);
  if (!pool_->goes_on_without(loss->rank, failure)) learner_failed(loss->rank, failure);
  check_attempt_over();
}

// True if the attempt has begun anew, or its learners were given up.
bool Supervisor::follow(const AgentFleet::News& news) {
  voice_.say_if(news.line);
  if (news.start_again) start_cold();
  if (news.give_up) give_up_learners(*news.give_up);
  return news.start_again || news.give_up.has_value();
}

void Supervisor::agent_silent(const Failure& failure) {
  attempt_.silence_agent(failure.rank);
  agents_->let_go(failure.rank);
  if (!pool_->goes_on_without(failure.rank, failure)) learner_failed(failure.rank, failure);
  check_attempt_over();
}

PmixServers::Now Supervisor::now_for_pmix() const {
  return {awake_ms(), state_.phase, attempt_.learners()};
}

void Supervisor::follow(const PmixServers::News& news) {
  for (const std::string& line : news.lines) voice_.say(line);
  if (!news.not_started.empty()) return agents_not_started(news.not_started);
  if (news.end_learners_ms) handle(EndLearners{*news.end_learners_ms});
  if (news.lost) learner_failed(news.lost->first, news.lost->second);
}

}  // namespace dl::supervise
