// SPDX-License-Identifier: Apache-2.0
// The comment of a companion, a second job that dlrun submits for more nodes: "dl-companion=JOB". By it dlpolicyd knows
// whose companion it is. Users may change comments, so this is never trusted: forging it makes the user's own job, if
// it is one of the borrow tier, the first from which GPUs are taken back, and keeps another one of the user's from
// being resized. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dl {

constexpr std::string_view kCompanionHint = "dl-companion=";

// No job has more of them at once: each is a job in Slurm's queue, whose script asks slurmctld now and then whether the
// job still runs.
constexpr int kMostCompanions = 8;

// job: its id, as Slurm's commands take it.
inline std::string companion_hint(const std::string& job) {
  return std::string(kCompanionHint) + job;
}

// The id in such a comment; empty if it is another one.
inline std::string_view companion_hint_in(std::string_view comment) {
  if (comment.substr(0, kCompanionHint.size()) != kCompanionHint) return {};
  comment.remove_prefix(kCompanionHint.size());
  return comment.substr(0, comment.find(' '));
}

}  // namespace dl
