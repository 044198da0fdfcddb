// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/space.h"

#include <algorithm>

#include "slurm-plugin/policy/victims.h"

namespace dl::policy {

bool Space::holds(When when, const std::vector<Part>& parts, int gpus_per_learner) const {
  const FreeGpus& free = at(when);
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return free.node(part.node).usable && free.on(part.node) >= part.learners * gpus_per_learner;
  });
}

void Space::started(const std::vector<Part>& parts, int gpus_per_learner) {
  later_.take(parts, gpus_per_learner);
  last_.take(parts, gpus_per_learner);
}

void Space::ended(const std::vector<Part>& parts, int gpus_per_learner) {
  later_.give(parts, gpus_per_learner);
  last_.give(parts, gpus_per_learner);
}

void Space::give_up(When when, const std::vector<Part>& held, int learners_left, int gpus_per_learner) {
  const std::vector<Part> kept = parts_after_shrink(held, learners_left);
  const auto free_in = [&](FreeGpus* free) {
    free->give(held, gpus_per_learner);
    free->take(kept, gpus_per_learner);
  };
  if (when == When::kLater) free_in(&later_);
  free_in(&last_);
}

Space::Kept Space::keep(When when, std::vector<Part> parts, int gpus_per_learner) {
  Kept kept;
  kept.gpus_per_learner = gpus_per_learner;
  for (const Part& part : parts) {
    const int wanted = part.learners * gpus_per_learner;
    const int last = when == When::kLast ? std::min(wanted, last_.on(part.node) - later_.on(part.node)) : 0;
    const int later = wanted - last;
    const int now = later - std::min(later, later_.on(part.node) - now_.on(part.node));
    now_.add(part.node, -now);
    later_.add(part.node, -later);
    last_.add(part.node, -wanted);
    kept.now.push_back(now);
    kept.later.push_back(later);
  }
  kept.parts = std::move(parts);
  return kept;
}

void Space::release(const Kept& kept) {
  for (size_t i = 0; i < kept.parts.size(); ++i) {
    const Part& part = kept.parts[i];
    now_.add(part.node, kept.now[i]);
    later_.add(part.node, kept.later[i]);
    last_.add(part.node, part.learners * kept.gpus_per_learner);
  }
}

}  // namespace dl::policy
