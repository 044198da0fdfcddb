// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/may_grow.h"

#include <fmt/core.h>

#include "common/base/count.h"
#include "common/contract/companion_hint.h"

namespace dl::supervise {
namespace {

constexpr int kMostNodesAdded = 10000;

}  // namespace

std::string why_not_grow(const GrowthFacts& facts) {
  if (facts.nodes < 1 || facts.nodes > kMostNodesAdded)
    return fmt::format("{} nodes cannot be added; allowed: 1 to {}", facts.nodes, kMostNodesAdded);
  if (!facts.can_grow) return "it has no allocation of Slurm's; allowed: a job of Slurm";
  if (!facts.asked.elastic() || facts.learners >= facts.asked.max)
    return fmt::format("it has {}, and may have no more; allowed: a job with --dl-learners=MIN:MAX",
                       count_text(facts.learners, "learner"));
  if (facts.servers > 0) return "it has parameter servers; allowed: a job without";
  if (!facts.saves)
    return "no learner can save and go on; allowed: a job with --dl-checkpoint whose program saves its state there";
  if (facts.one_is_new) return "it has asked for more nodes already; allowed: again, when its learners are on those";
  if (facts.companions >= kMostCompanions)
    return fmt::format("it has {} companions; allowed: up to {}, each of several nodes", facts.companions,
                       kMostCompanions);
  if (!facts.trains) return "its learners do not train at this moment; allowed: again, when they do";
  return "";
}

}  // namespace dl::supervise
