// SPDX-License-Identifier: Apache-2.0
// What is looked at from time to time: agents that do not come, and learners that are slower than the others.
#include <fmt/format.h>

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

}  // namespace dl::supervise
