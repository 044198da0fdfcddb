// SPDX-License-Identifier: Apache-2.0
// Acts on what AgentFleet and PmixServers conclude when a connection of theirs breaks or is resumed.
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
  if (pmix_->knows(id)) return follow(pmix_->broken(id, why, now_for_pmix()));
  const auto loss = agents_->broken(id, why, state_.ending(), awake_ms(), attempt_.learners());
  if (loss) return follow(loss);
  if (agents_->rank_of(id)) ask_quickly(id);
}

void Supervisor::ask_quickly(ConnectionId id) {
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
  if (loss->takes_node()) {
    nodes_.lose(loss->rank);
    remember([&](record::RunMemory* memory) { memory->lost.push_back(nodes_.name_of(loss->rank)); });
  }
  if (loss->fence_until_ms) raise_fence(*loss->fence_until_ms);
  Failure failure = failure_of(*loss, attempt_.learner(loss->rank).host);
  failure.asked = state_.ending();
  learner_failed(loss->rank, failure);
  check_attempt_over();
}

}  // namespace dl::supervise
