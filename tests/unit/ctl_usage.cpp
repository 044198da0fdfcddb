// SPDX-License-Identifier: Apache-2.0
// GPU-hours of tenants and users.
#include <gtest/gtest.h>

#include "common/json/json.h"
#include "launcher/ctl/usage_rows.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::ctl {
namespace {

constexpr int64_t kBegin = 1'789'000'000, kHour = 3600;
const Period kDay{kBegin, kBegin + 24 * kHour};

std::string label(const std::string& tenant, policy::Charge charge, int own_part = 0) {
  policy::JobLabel one;
  one.tenant = tenant;
  one.charge = charge;
  one.own_part = own_part;
  return policy::format_label(one);
}

std::string job(const std::string& account, const std::string& user, int64_t start_h, const std::string& end,
                const std::string& state, const std::string& tres, const std::string& comment) {
  std::string line;
  for (const std::string& cell : {account, user, std::to_string(kBegin + start_h * kHour), end, state, tres, comment})
    line += (line.empty() ? "" : std::string(1, kUsageCell)) + cell;
  return line + "\n";
}
std::string at(int64_t hours) {
  return std::to_string(kBegin + hours * kHour);
}

TEST(Usage, HoursGoToTenantsAndUsersAsTheirJobsWereCharged) {
  const std::string own = label("vision", policy::Charge::kOwn), lent = label("vision", policy::Charge::kBorrowed, 1);
  const Usage usage =
      usage_of_accounts(job("vision", "ann", 0, at(2), "COMPLETED", "cpu=8,gres/gpu=4", own) +
                            job("vision", "bob", 1, at(3), "FAILED", "gres/gpu=3,gres/gpu:a100=3", lent) +
                            job("guests", "bob", 5, at(6), "TIMEOUT", "gres/gpu=2", "something") +
                            job("guests", "cy", 5, at(9), "COMPLETED", "cpu=100", ""),
                        kDay);
  ASSERT_EQ(usage.tenants.size(), 2U);
  const TenantHours& vision = usage.tenants.at("vision");
  EXPECT_DOUBLE_EQ(vision.all.own, 10);
  EXPECT_DOUBLE_EQ(vision.all.borrowed, 4);
  EXPECT_DOUBLE_EQ(vision.users.at("ann").own, 8);
  EXPECT_DOUBLE_EQ(vision.users.at("bob").own, 2) << "a GPU of it is charged to the quota";
  EXPECT_EQ(vision.all.jobs, 2);
  EXPECT_FALSE(vision.lent) << "not known";
  EXPECT_DOUBLE_EQ(usage.tenants.at("guests").all.uncharged, 2);
  EXPECT_EQ(usage.tenants.at("guests").users.count("cy"), 0U) << "no GPU";
}

TEST(Usage, OnlyThePeriodCountsAndAJobThatRunsCountsUntilNow) {
  const std::string own = label("a", policy::Charge::kOwn);
  const auto hours = [&](int64_t start_h, const std::string& end, const char* state) {
    const Usage usage = usage_of_accounts(job("a", "u", start_h, end, state, "gres/gpu=1", own), kDay);
    return usage.tenants.empty() ? 0 : usage.tenants.at("a").all.own;
  };
  EXPECT_DOUBLE_EQ(hours(-10, at(2), "COMPLETED"), 2);
  EXPECT_DOUBLE_EQ(hours(20, at(30), "COMPLETED"), 4);
  EXPECT_DOUBLE_EQ(hours(20, "Unknown", "RUNNING"), 4);
  EXPECT_DOUBLE_EQ(hours(20, "Unknown", "PENDING"), 0);
  EXPECT_DOUBLE_EQ(hours(-10, at(-5), "COMPLETED"), 0);
  EXPECT_DOUBLE_EQ(hours(5, at(4), "COMPLETED"), 0) << "the clock was set back";
}

TEST(Usage, AJobThatRunsIsChargedAsSlurmctldSaysNow) {
  const std::string end(1, kUsageCell);
  const auto running = [&](const std::string& id, const char* state) {
    std::string line = job("vision", "ann", 20, "Unknown", state, "gres/gpu=2", "");
    return line.insert(line.size() - 1, end + id);
  };
  const auto padded = [](std::string id, const std::string& text) {
    id.resize(kSqueueIdWidth, ' ');
    return id + text + "   \n";
  };
  const LabelsById labels =
      labels_of_squeue(padded("12", label("vision", policy::Charge::kOwn)) +
                       padded("13", label("vision", policy::Charge::kBorrowed)) + padded("14", "") + "\nshort\n");
  EXPECT_EQ(labels.size(), 3U);
  const Usage usage = usage_of_accounts(
      running("12", "RUNNING") + running("13", "SUSPENDED") + running("14", "RUNNING") + running("15", "RUNNING"), kDay,
      labels);
  const GpuHours& all = usage.tenants.at("vision").all;
  EXPECT_DOUBLE_EQ(all.own, 8);
  EXPECT_DOUBLE_EQ(all.borrowed, 8);
  EXPECT_DOUBLE_EQ(all.uncharged, 16);
  // What slurmdbd knows of a job that has ended counts.
  const std::string ended = job("vision", "ann", 0, at(1), "COMPLETED", "gres/gpu=1", "");
  const Usage old = usage_of_accounts(ended.substr(0, ended.size() - 1) + end + "12\n", kDay, labels);
  EXPECT_DOUBLE_EQ(old.tenants.at("vision").all.uncharged, 1);
}

TEST(Usage, LinesThatAreNoneAreCountedAndPassedOver) {
  const Usage usage =
      usage_of_accounts("sacct: error\n\na|b\n" + job("a", "u", 0, at(1), "COMPLETED", "gres/gpu=1", ""), kDay);
  EXPECT_EQ(usage.skipped, 2);
  EXPECT_DOUBLE_EQ(usage.tenants.at("a").all.uncharged, 1);
}

TEST(Usage, TheHistoryKnowsWhatWasLentButNoUsers) {
  std::vector<observe::TenantSpan> spans(2);
  spans[0] = {kBegin - kHour, 2 * kHour, "vision", 8, 4, 3, 0, 0, 0};
  spans[1] = {kBegin + kHour, kHour, "text", 4, 4, 0, 2, 0, 0};
  const Usage usage = usage_of_history(spans, kDay);
  EXPECT_DOUBLE_EQ(usage.tenants.at("vision").all.own, 4) << "an hour of it was before";
  EXPECT_DOUBLE_EQ(*usage.tenants.at("vision").lent, 3);
  EXPECT_DOUBLE_EQ(usage.tenants.at("text").all.borrowed, 2);
  EXPECT_TRUE(usage.tenants.at("text").users.empty());
  Usage accounts = usage_of_accounts(
      job("text", "u", 0, at(1), "COMPLETED", "gres/gpu=1", label("text", policy::Charge::kOwn)), kDay);
  add_lent(spans, kDay, &accounts);
  EXPECT_DOUBLE_EQ(*accounts.tenants.at("vision").lent, 3);
  EXPECT_DOUBLE_EQ(accounts.tenants.at("text").all.own, 1);
}

TEST(Usage, WhatIsNotKnownIsNever0) {
  std::vector<observe::TenantSpan> spans(1);
  spans[0] = {kBegin, 2 * kHour, "vision", 8, 4, 3, 0, 0, 0};
  Usage usage = usage_of_history(spans, kDay);
  EXPECT_NE(usage_text(usage).find("\nvision        -     8.0  6.0   0.0       -\n"), std::string::npos)
      << usage_text(usage);
  EXPECT_NE(usage_csv(usage).find("\nvision,,,8.0000,6.0000,0.0000,,"), std::string::npos) << usage_csv(usage);
  const Json of_history = Json::parse(usage_json(usage, kDay));
  const Json& tenant = of_history.at("tenants")[0];
  EXPECT_TRUE(tenant.at("jobs").is_null());
  EXPECT_TRUE(tenant.at("uncharged").is_null());
  EXPECT_EQ(tenant.at("borrowed").get<double>(), 0);
  usage = usage_of_accounts("", kDay);
  add_lent(spans, kDay, &usage);
  EXPECT_NE(usage_text(usage).find("\nvision        0     0.0  6.0   0.0       0.0\n"), std::string::npos)
      << "it is known that it had no job\n"
      << usage_text(usage);
  EXPECT_NE(usage_csv(usage).find("\nvision,,0,0.0000,6.0000,0.0000,0.0000,"), std::string::npos) << usage_csv(usage);
}

TEST(Usage, IsPrintedAsTextCsvAndJsonWhateverTheNames) {
  Usage usage = usage_of_accounts(
      job("a,\"b\"", "x\x1b[31m", 0, at(2), "COMPLETED", "gres/gpu=4", "") +
          job("Vision", "ann", 0, at(2), "COMPLETED", "gres/gpu=4", label("vision", policy::Charge::kOwn)),
      kDay);
  const std::string text = usage_text(usage);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("GPU-hours, from Slurm's accounting"), std::string::npos);
  EXPECT_NE(usage_csv(usage).find("\"a,\"\"b\"\"\",,1,0.0000,,0.0000,8.0000,Slurm's accounting\n"), std::string::npos)
      << usage_csv(usage);
  const Json json = Json::parse(usage_json(usage, kDay));
  ASSERT_EQ(json.at("tenants").size(), 2U);
  EXPECT_EQ(json.at("tenants")[1].at("tenant").text(), "vision");
  EXPECT_TRUE(json.at("tenants")[1].at("lent").is_null());
  EXPECT_EQ(json.at("tenants")[1].at("users")[0].at("own").get<double>(), 8);
  EXPECT_TRUE(keep_tenant("VISION", &usage));
  EXPECT_EQ(usage.tenants.size(), 1U);
  EXPECT_FALSE(keep_tenant("nobody", &usage));
}

}  // namespace
}  // namespace dl::ctl
