// SPDX-License-Identifier: Apache-2.0
// What is looked at while learners run: whether one is slower than the others. It is only said, never acted upon: a
// slow learner may be a shared node or a full disk, and a restart costs everybody's time.
#include <fmt/format.h>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

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
