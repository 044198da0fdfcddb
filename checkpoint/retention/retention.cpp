// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/retention/retention.h"

#include <algorithm>
#include <set>

namespace dl::ckpt {
namespace {

std::string count_text(int count) {
  return count == 1 ? std::string() : std::to_string(count) + " ";
}

// The indices of the best checkpoints. `checkpoints` is sorted, newest first.
std::set<size_t> find_best(const std::vector<CheckpointFacts>& checkpoints, const BestMetric& best) {
  struct Candidate {
    double value;
    size_t index;
  };
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    const auto found = checkpoints[i].metrics.find(best.metric);
    if (!checkpoints[i].intact || found == checkpoints[i].metrics.end()) continue;
    candidates.push_back({best.lowest ? found->second : -found->second, i});
  }
  // The sort is stable, so of equal values the newer comes first.
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value < b.value; });
  std::set<size_t> chosen;
  for (size_t i = 0; i < candidates.size() && i < static_cast<size_t>(std::max(best.count, 0)); ++i)
    chosen.insert(candidates[i].index);
  return chosen;
}

}  // namespace

bool newer(const CheckpointName& a, const CheckpointName& b) {
  if (a.generation() != b.generation()) return a.generation() > b.generation();
  if (a.step != b.step) return a.step > b.step;
  return a.save_id > b.save_id;
}

std::vector<RetentionVerdict> decide_retention(std::vector<CheckpointFacts> checkpoints, const RetentionPolicy& policy,
                                               const std::optional<CheckpointName>& just_written) {
  std::sort(checkpoints.begin(), checkpoints.end(),
            [](const CheckpointFacts& a, const CheckpointFacts& b) { return newer(a.name, b.name); });
  const auto keep = static_cast<size_t>(std::max(policy.keep, 1));
  std::set<size_t> best;
  if (policy.best) best = find_best(checkpoints, *policy.best);

  std::vector<RetentionVerdict> verdicts;
  verdicts.reserve(checkpoints.size());
  std::set<int64_t> milestones;  // train steps whose newest checkpoint has been seen
  size_t intact = 0;             // number of intact ones seen so far
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    const CheckpointFacts& facts = checkpoints[i];
    RetentionVerdict verdict{facts.name, false, ""};
    const bool newest_of_step = facts.intact && milestones.insert(facts.name.step).second;
    if (just_written && just_written->save_id == facts.name.save_id && just_written->step == facts.name.step) {
      verdict.reason = "just written";
    } else if (facts.pinned) {
      verdict.reason = "pinned";
    } else if (policy.held.count(facts.name.save_id) > 0) {
      verdict.reason = "being sent to the object store";
    } else if (!facts.intact) {
      verdict.remove = intact >= keep;
      verdict.reason =
          verdict.remove ? "damaged, and there are newer ones" : "damaged, but there are not enough newer ones";
    } else if (intact < keep) {
      verdict.reason = "one of the newest " + std::to_string(keep);
    } else if (policy.keep_every > 0 && newest_of_step && facts.name.step % policy.keep_every == 0) {
      verdict.reason = "its train step is divisible by " + std::to_string(policy.keep_every);
    } else if (best.count(i) > 0) {
      verdict.reason = "one of the best " + count_text(policy.best->count) + "by " + policy.best->metric;
    } else {
      verdict.remove = true;
      verdict.reason = "older than the newest " + std::to_string(keep);
    }
    if (facts.intact) ++intact;
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace dl::ckpt
