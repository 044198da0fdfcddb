// SPDX-License-Identifier: Apache-2.0
// A tenant that is not in dl.toml any more: what it has queued is held, what runs is shown.
#include <gtest/gtest.h>

#include "slurm-plugin/policyd/metrics.h"
#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using policy::Charge;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::label;
using testing::site;

struct Seen {
  observe::ClusterView view;
  std::vector<Action> actions;
};
Seen look(const observe::Records& records, const policy::ClusterState& state) {
  Seen seen;
  seen.view = observe::view_cluster(state, records, {});
  seen.actions = needed_actions(seen.view, records, policy::decide(seen.view.state), {});
  return seen;
}

observe::Records with_jobs_of_a_tenant_that_went() {
  observe::Records records = cluster(1, 4);
  add_running(&records, 1, label("gone", 2, Charge::kOwn), "n1", {2});
  add_pending(&records, 2, label("gone", 1, Charge::kOwn)).licenses = "";  // slurmctld has dropped the licences
  return records;
}

TEST(RemovedTenantTest, WhatItHasQueuedIsHeldOnce) {
  observe::Records records = with_jobs_of_a_tenant_that_went();
  Seen seen = look(records, site());
  ASSERT_EQ(seen.actions.size(), 1U) << as_text(seen.actions);
  EXPECT_EQ(seen.actions[0].kind, ActionKind::kHold);
  EXPECT_EQ(seen.actions[0].job, 2);
  EXPECT_EQ(seen.actions[0].update.hold, true);
  records.jobs[1].held = true;
  records.jobs[1].wait = observe::Wait::kOther;
  records.jobs[1].admin_comment = *seen.actions[0].update.admin_comment;
  EXPECT_TRUE(look(records, site()).actions.empty());
  // Somebody lets it go: it would run, and nobody would be charged.
  records.jobs[1].held = false;
  seen = look(records, site());
  ASSERT_EQ(seen.actions.size(), 1U);
  EXPECT_FALSE(seen.actions[0].update.admin_comment);
}

TEST(RemovedTenantTest, ItIsReleasedWithItsLicencesWhenTheTenantIsBack) {
  observe::Records records = with_jobs_of_a_tenant_that_went();
  policy::JobLabel held = label("gone", 1, Charge::kOwn);
  held.unowned = true;
  records.jobs[1].admin_comment = policy::format_label(held);
  records.jobs[1].held = true;
  records.jobs[1].wait = observe::Wait::kOther;
  policy::ClusterState state = site();
  state.tenants[0].name = "gone";
  const Seen seen = look(records, state);
  ASSERT_EQ(seen.actions.size(), 1U) << as_text(seen.actions);
  EXPECT_EQ(seen.actions[0].kind, ActionKind::kRelease);
  EXPECT_EQ(seen.actions[0].update.hold, false);
  EXPECT_EQ(seen.actions[0].update.licenses, "dl_gone:1");
  EXPECT_FALSE(policy::parse_label(*seen.actions[0].update.admin_comment)->unowned);
  // Who was held by a person stays held.
  records.jobs[1].admin_comment = policy::format_label(label("gone", 1, Charge::kOwn));
  EXPECT_TRUE(look(records, state).actions.empty());
}

TEST(RemovedTenantTest, TheMetricsTellWhatNobodyIsChargedFor) {
  const observe::Records records = with_jobs_of_a_tenant_that_went();
  const Seen seen = look(records, site());
  EXPECT_EQ(seen.view.foreign_gpus, 2);
  const std::string text = metrics_text(seen.view, policy::decide(seen.view.state), {});
  EXPECT_NE(text.find("dl_uncharged_gpus{tenant=\"gone\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("dl_uncharged_waiting_jobs{tenant=\"gone\"} 1\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace dl::policyd
