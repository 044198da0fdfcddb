// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/sealed_jobs.h"

#include <algorithm>
#include <set>

namespace dl::policyd {

using observe::JobPhase;
using observe::JobRecord;

bool works_without_change(ActionKind kind) {
  return kind == ActionKind::kYield || kind == ActionKind::kRequeue || kind == ActionKind::kPutBack ||
         kind == ActionKind::kEnd;
}

// dlrun reads from the label itself how it is to be resized or what it is offered, so that is not remembered.
void SealedJobs::remember(const Action& action, Sealed* job) {
  if (!action.update.admin_comment || action.kind == ActionKind::kResize) return;
  const auto label = policy::parse_label(*action.update.admin_comment);
  if (!label) return;
  job->yields = label->yields;
  job->queued_s = label->queued_s;
}

bool SealedJobs::refused(const Action& action, int64_t now_s) {
  const auto [found, is_new] = jobs_.try_emplace(action.job);
  Sealed& job = found->second;
  if (is_new) job.since_s = now_s;
  job.pause_s = is_new ? kFirstPauseS : std::min(2 * job.pause_s, kLongestPauseS);
  job.again_s = now_s + job.pause_s;
  remember(action, &job);
  return is_new;
}

void SealedJobs::made(const Action& action) {
  const auto found = jobs_.find(action.job);
  if (found == jobs_.end()) return;
  found->second.again_s = 0;
  if (action.update.admin_comment) jobs_.erase(found);  // all that it is asked stands in its label now
}

std::optional<observe::Records> SealedJobs::with_requests(const observe::Records& records) {
  if (jobs_.empty()) return std::nullopt;
  std::set<int64_t> known;
  std::optional<observe::Records> changed;
  for (size_t i = 0; i < records.jobs.size(); ++i) {
    const JobRecord& record = records.jobs[i];
    const int64_t id = observe::id_of(record);
    const auto found = jobs_.find(id);
    if (found == jobs_.end() || record.phase == JobPhase::kOver) continue;
    Sealed& job = found->second;
    job.runs = record.phase != JobPhase::kPending;
    if (job.runs ? record.start_s > job.since_s : !job.yields) continue;
    known.insert(id);
    auto label = policy::parse_label(record.admin_comment);
    if (!label || (label->yields == job.yields && label->queued_s == job.queued_s)) continue;
    label->yields = job.yields;
    label->queued_s = job.queued_s;
    if (!changed) changed = records;
    changed->jobs[i].admin_comment = policy::format_label(*label);
  }
  for (auto job = jobs_.begin(); job != jobs_.end();) job = known.count(job->first) != 0 ? ++job : jobs_.erase(job);
  return changed;
}

void SealedJobs::leave_out_changes(std::vector<Action>* actions, int64_t now_s) {
  if (jobs_.empty()) return;
  std::vector<Action> left;
  for (Action& action : *actions) {
    const auto found = jobs_.find(action.job);
    const bool sealed = found != jobs_.end() && found->second.runs && now_s < found->second.again_s;
    if (sealed && !action.update.empty()) {
      remember(action, &found->second);
      action.update = {};
      const bool does_more = action.signal || action.requeue || action.end || !action.notice.empty();
      if (!does_more || !works_without_change(action.kind)) continue;
    }
    left.push_back(std::move(action));
  }
  *actions = std::move(left);
}

}  // namespace dl::policyd
