// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_orphans.h"

#include "slurm-plugin/policy/job_label.h"

namespace dl::ctl {

std::vector<Orphan> orphans_of(const SiteConfig& site, const observe::Records& records) {
  std::vector<Orphan> orphans;
  for (const observe::JobRecord& record : records.jobs) {
    if (record.phase != observe::JobPhase::kPending || record.held) continue;
    auto label = policy::parse_label(record.admin_comment);
    if (!label || find_tenant(site.tenants, label->tenant) >= 0) continue;
    label->unowned = true;
    orphans.push_back({record.id, label->tenant, policy::format_label(*label)});
  }
  return orphans;
}

}  // namespace dl::ctl
