// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/diff.h"

#include <algorithm>

#include "slurm-plugin/observe/cluster_view.h"

namespace dl::policyd {
namespace {

// Time between a requeue and the next start. Slurm 22.05 revokes the credential of a job that starts in the same
// second.
constexpr int64_t kReturnS = 2;

std::optional<int64_t> new_begin(const Present& present, const Target& target, int64_t now_s) {
  const int64_t soonest = target.returned ? now_s + kReturnS : now_s;
  const int64_t opened = std::max(soonest, target.label.begin_s.value_or(0));
  if (target.begin == Begin::kOpenNow) return opened;
  if (target.begin == Begin::kOpen && present.gated && present.begin_s > now_s + observe::kSoonS) return opened;
  if (target.returned && present.begin_s > soonest) return soonest;
  if (target.begin == Begin::kGated && present.begin_s < now_s + target.gate_s / 2) return now_s + target.gate_s;
  return std::nullopt;
}

bool nodes_differ(const Present& present, const Target& target) {
  if (!target.max_nodes) return false;
  const policy::JobLabel& label = target.label;
  if (!target.min_nodes || !label.learners.elastic()) return *target.max_nodes != present.max_nodes;
  if (present.min_nodes != 0 && *target.min_nodes != present.min_nodes) return true;
  // Where Slurm does not tell the largest number, one that does no harm is not set again in each round.
  const bool whole = static_cast<int>(*target.max_nodes) == label.max_nodes && target.min_nodes != target.max_nodes;
  return present.max_nodes == 0 ? !whole : *target.max_nodes != present.max_nodes;
}

}  // namespace

Present present_of(const observe::JobRecord& record, const policy::JobLabel& label, bool gated) {
  return Present{record.licenses,  record.admin_comment, label, record.site_factor, record.begin_s,
                 record.min_nodes, record.max_nodes,     gated};
}

observe::JobUpdate diff(const Present& present, const Target& target, int64_t now_s) {
  observe::JobUpdate update;
  if (target.licenses && *target.licenses != present.licenses) update.licenses = target.licenses;
  policy::JobLabel label = target.label;
  if (nodes_differ(present, target)) {
    update.min_nodes = target.min_nodes;
    update.max_nodes = target.max_nodes;
    update.cpus_of_nodes = label.nodes_set = target.min_nodes && label.learners.elastic();
  }
  std::string text = policy::format_label(label);
  if (text != present.admin_comment && text != policy::format_label(present.label))
    update.admin_comment = std::move(text);
  const bool unranked = present.site_factor == 0 && target.unranked_will_do;
  if (target.site_factor && *target.site_factor != present.site_factor && !unranked)
    update.site_factor = target.site_factor;
  update.begin_s = new_begin(present, target, now_s);
  return update;
}

}  // namespace dl::policyd
