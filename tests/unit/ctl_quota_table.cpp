// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/policy_support.h"

namespace dl::ctl {
namespace {

using policy::Charge;
using policy::quota_rows;
using policy::testing::add_job;
using policy::testing::add_running;
using policy::testing::add_tenant;
using policy::testing::cluster;

// a: 4 of its own, 1 in use; b: 4, none in use; c: none, borrows 4.
policy::ClusterState lending() {
  policy::ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 4);
  add_tenant(&state, "b", 4);
  add_tenant(&state, "c", 0);
  add_running(&state, 0, {{0, 1}}, Charge::kOwn);
  add_running(&state, 2, {{1, 4}}, Charge::kBorrowed);
  add_job(&state, 1, 3);
  add_job(&state, 1, 2);
  return state;
}

TEST(QuotaTableTest, WhatIsLentAddsUpToWhatIsBorrowed) {
  const auto rows = quota_rows(lending());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].own, 1);
  EXPECT_EQ(rows[2].borrowed, 4);
  EXPECT_EQ(rows[0].lent + rows[1].lent, 4);
  EXPECT_LE(rows[0].lent, 3);
  EXPECT_EQ(rows[1].pending, 5);
  EXPECT_EQ(rows[1].jobs_pending, 2);
}

TEST(QuotaTableTest, NobodyLendsMoreThanIsIdle) {
  policy::testing::Dice dice(3);
  for (int round = 0; round < 2000; ++round) {
    const policy::ClusterState state = policy::testing::random_state(&dice);
    const policy::Ledger ledger(state);
    const auto rows = quota_rows(state);
    int lent = 0;
    int idle = 0;
    int borrowed = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int tenant = static_cast<int>(i);
      EXPECT_GE(rows[i].lent, 0);
      EXPECT_LE(rows[i].lent, ledger.idle_quota(tenant));
      lent += rows[i].lent;
      idle += ledger.idle_quota(tenant);
      borrowed += rows[i].borrowed;
    }
    EXPECT_EQ(lent, std::min(idle, borrowed));
  }
}

TEST(QuotaTableTest, BarsShowTheQuotaInBracketsAndWhatIsBorrowedBehindThem) {
  policy::ClusterState state = lending();
  state.tenants[2].weight = 0;
  const std::string text = quota_text(quota_rows(state), true, 8);
  EXPECT_NE(text.find("[##"), std::string::npos) << text;
  EXPECT_NE(text.find("[]>>>>>>>>"), std::string::npos) << text;
  EXPECT_NE(text.find("last"), std::string::npos) << text;
  EXPECT_EQ(quota_text(quota_rows(state), false).find('['), std::string::npos);
  const auto json = nlohmann::json::parse(quota_json(quota_rows(state), state));
  EXPECT_EQ(json["tenants"][2]["borrowed"], 4);
  EXPECT_TRUE(json["tenants"][2]["fair_share"].is_null());
  ASSERT_EQ(json["free"].size(), state.types.size());
  EXPECT_EQ(json["free"][0]["type"], state.types[0]);
  EXPECT_GE(json["free"][0]["fragmentation"], 0);
}

TEST(QuotaTableTest, NamesTenantsThatAreNotDeclaredAnyMore) {
  observe::Uncharged runs;
  runs.label.tenant = "gone";
  runs.gpus = 4;
  observe::Uncharged waits = runs;
  waits.gpus = 0;
  EXPECT_EQ(uncharged_text({}), "");
  EXPECT_EQ(uncharged_text({runs, waits}),
            "gone: not in dl.toml any more; 4 GPUs of 1 running job are charged to nobody, 1 job waits and is held by "
            "dlpolicyd until it is declared again\n");
  const policy::ClusterState state = lending();
  const auto json = nlohmann::json::parse(quota_json(quota_rows(state), state, {runs, waits}));
  EXPECT_EQ(json["uncharged"][0]["tenant"], "gone");
  EXPECT_EQ(json["uncharged"][0]["gpus"], 4);
}

}  // namespace
}  // namespace dl::ctl
