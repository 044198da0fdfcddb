// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/sizes/resize_order.h"

#include <iterator>

namespace dl::policy {
namespace {

// Whether the job was asked in its present attempt.
bool asked_now(const Job& job, const Yield& told, const Grace& grace) {
  return job.start_s <= told.deadline_s - grace.grace_s;
}

}  // namespace

bool resizes_itself(const std::optional<Yield>& told, int64_t job) {
  return told && told->claimant == job;
}

ResizeOrder resize_order(const ClusterState& state, const Job& job, const std::optional<Yield>& told, bool claimed,
                         int learners, const Grace& grace) {
  ResizeOrder order;
  if (claimed) return order;
  if (resizes_itself(told, job.id)) {
    const bool goes = asked_now(job, *told, grace) && state.now_s <= told->deadline_s + grace.early_s();
    order.step = goes ? ResizeStep::kWait : ResizeStep::kWithdraw;
    return order;
  }
  if (told || learners == 0 || learners == job.learners()) return order;
  order.step = ResizeStep::kAsk;
  order.yield = {job.id, state.now_s + grace.grace_s, learners};
  order.size = {learners, job.submit_s};
  return order;
}

void ResizeRefusals::look(const Job& job, const Yield& told, int64_t now_s) {
  if (resizes_itself(told, job.id) && now_s > told.deadline_s) until_[job.id] = now_s + kRefusedS;
}

bool ResizeRefusals::refused(int64_t job, int64_t now_s) const {
  const auto found = until_.find(job);
  return found != until_.end() && found->second > now_s;
}

void ResizeRefusals::tidy(int64_t now_s) {
  for (auto it = until_.begin(); it != until_.end();) it = it->second <= now_s ? until_.erase(it) : std::next(it);
}

bool may_choose_size(const Job& job, bool hears, const std::optional<Yield>& told, bool refused) {
  return !job.running || (hears && !told && !refused);
}

}  // namespace dl::policy
