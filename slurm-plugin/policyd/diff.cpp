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

}  // namespace

Present present_of(const observe::JobRecord& record, const policy::JobLabel& label, bool gated) {
  return Present{record.licenses, record.admin_comment, label, record.site_factor,
                 record.begin_s,  record.max_nodes,     gated};
}

observe::JobUpdate diff(const Present& present, const Target& target, int64_t now_s) {
  observe::JobUpdate update;
  if (target.licenses && *target.licenses != present.licenses) update.licenses = target.licenses;
  std::string text = policy::format_label(target.label);
  if (text != present.admin_comment && text != policy::format_label(present.label))
    update.admin_comment = std::move(text);
  const bool unranked = present.site_factor == 0 && target.unranked_will_do;
  if (target.site_factor && *target.site_factor != present.site_factor && !unranked)
    update.site_factor = target.site_factor;
  update.begin_s = new_begin(present, target, now_s);
  if (target.max_nodes && *target.max_nodes != present.max_nodes) {
    update.max_nodes = target.max_nodes;
    if (target.exact_nodes) update.min_nodes = target.max_nodes;
  }
  return update;
}

}  // namespace dl::policyd
