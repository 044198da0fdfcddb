// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_orphans.h"

#include <gtest/gtest.h>

#include "slurm-plugin/policy/job_label.h"

namespace dl::ctl {
namespace {

observe::JobRecord waiting(int64_t id, const std::string& tenant) {
  policy::JobLabel label;
  label.tenant = tenant;
  label.note = "a note";
  observe::JobRecord record;
  record.id = id;
  record.phase = observe::JobPhase::kPending;
  record.admin_comment = policy::format_label(label);
  return record;
}

TEST(QuotaOrphans, AreWhatATenantThatWentHasInTheQueue) {
  const auto site = parse_site_config("[tenants.vision]\nquota = 1\n", "dl.toml");
  ASSERT_TRUE(site);
  observe::Records records;
  records.jobs = {waiting(1, "gone"), waiting(2, "VISION"), waiting(3, "gone"), waiting(4, "gone"), waiting(5, "gone")};
  records.jobs[2].held = true;                          // by somebody, who may let it go
  records.jobs[3].phase = observe::JobPhase::kRunning;  // goes on
  records.jobs[4].admin_comment = "dl:1 tenant=gone";   // none of ours
  const auto orphans = orphans_of(*site, records);
  ASSERT_EQ(orphans.size(), 1U);
  EXPECT_EQ(orphans[0].job, 1);
  EXPECT_EQ(orphans[0].tenant, "gone");
  const auto label = policy::parse_label(orphans[0].label);
  ASSERT_TRUE(label);
  EXPECT_TRUE(label->unowned) << "so that dlpolicyd releases it when its tenant is back";
  EXPECT_EQ(label->note, "a note");
}

}  // namespace
}  // namespace dl::ctl
