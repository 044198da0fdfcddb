// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/dropping.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "slurm-plugin/policy/drop.h"

namespace dl::policyd {

using observe::JobRecord;
using observe::SeenJob;

namespace {

constexpr int64_t kBeginsInS = 60;

Action drop(const SeenJob& seen, const policy::Dropped& dropped, int64_t now_s) {
  policy::JobLabel label = seen.label;
  label.dropped = dropped;
  Action action;
  action.kind = ActionKind::kDrop;
  action.job = seen.id;
  if (!seen.label.dropped) {
    action.update.admin_comment = policy::format_label(label);
    action.update.hold = true;
    // Slurm would hold a running job, too; a begin time it gives to none.
    action.update.begin_s = now_s + kBeginsInS;
  }
  action.end = true;
  action.why = fmt::format("is dropped: {}", policy::dropped_text(dropped));
  return action;
}

}  // namespace

bool has_begun(const SeenJob& seen, const JobRecord& record) {
  const policy::JobLabel& label = seen.label;
  return record.phase != observe::JobPhase::kPending || record.requeues > 0 || seen.dlrun || label.size ||
         label.yields || label.yielded || label.queued_s || label.grow || label.shrunk;
}

bool unmark_begun(const SeenJob& seen, const JobRecord& record, policy::JobLabel* label, std::string* why) {
  if (!label->dropped || !has_begun(seen, record)) return false;
  label->dropped.reset();
  if (why->empty()) *why = "has begun, so it is not dropped";
  return true;
}

std::vector<Action> drop_actions(const observe::ClusterView& view, const observe::Records& records,
                                 const policy::Decision& decision, std::optional<int64_t> after_s) {
  std::vector<Action> actions;
  const auto again = [&](const SeenJob& seen) {
    if (seen.label.dropped && !has_begun(seen, records.jobs[seen.record]))
      actions.push_back(drop(seen, *seen.label.dropped, view.state.now_s));
  };
  for (const SeenJob& seen : view.aside) again(seen);
  for (const SeenJob& seen : view.jobs) again(seen);
  if (!after_s) return actions;
  std::vector<char> begun;
  for (const SeenJob& seen : view.jobs) begun.push_back(has_begun(seen, records.jobs[seen.record]) ? 1 : 0);
  for (const policy::Drop& one : policy::not_admitted(view.state, decision, begun, *after_s)) {
    const SeenJob& seen = view.jobs[one.job];
    if (!seen.label.dropped) actions.push_back(drop(seen, {one.gpus, one.room, view.state.now_s}, view.state.now_s));
  }
  return actions;
}

void put_first(std::vector<Action> drops, std::vector<Action>* actions) {
  if (drops.empty()) return;
  std::set<int64_t> dropped;
  for (const Action& action : drops) dropped.insert(action.job);
  for (Action& action : *actions)
    if (dropped.count(action.job) == 0) drops.push_back(std::move(action));
  *actions = std::move(drops);
}

}  // namespace dl::policyd
