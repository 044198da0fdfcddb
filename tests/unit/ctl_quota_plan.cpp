// SPDX-License-Identifier: Apache-2.0
// dlctl quota sync: the steps from what Slurm has to what dl.toml says, and that there are none afterwards.
#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/ctl/quota_plan.h"

namespace dl::ctl {
namespace {

SiteConfig site() {
  auto config = parse_site_config(R"(
    [nodes]
    types = { a100 = 2 }
    counts = { a100 = 2 }
    [tiers.borrow]
    qos = "borrow"
    [tiers.guaranteed]
    qos = "own"
    [tenants.vision]
    quota = { a100 = 4 }
    borrow_limit = 8
    weight = 2.5
    max_user_gpus = 3
    [tenants.nlp]
    quota = 2
  )",
                                  "dl.toml");
  EXPECT_TRUE(config) << config.error().text;
  return *config;
}

const char* const kLicences =
    "LicenseName=dl_gone Total=2 Used=1 Free=1 Reserved=0 Remote=no\n"
    "LicenseName=dl_nlp Total=3 Used=3 Free=0 Reserved=0 Remote=no\n"
    "LicenseName=matlab Total=10 Used=0 Free=10 Reserved=0 Remote=no\n"
    "LicenseName=far@server Total=10 Used=0 Free=10 Reserved=0 Remote=yes\nNo licenses configured\n";

SlurmHas has(bool accounting) {
  SlurmHas slurm;
  read_licences(kLicences, &slurm);
  slurm.accounting = accounting;
  slurm.enforces_limits = true;
  slurm.cluster = "c1";
  return slurm;
}

std::string text_of(const QuotaPlan& plan) {
  std::string text;
  for (const Step& step : plan.steps) {
    text += step.what + " " + step.name + ": " + step.has + " -> " + step.wants + "\n";
  }
  return text;
}

TEST(QuotaPlan, keeps_the_sites_licences_and_names_what_changes) {
  const QuotaPlan plan = plan_quotas(site(), has(false));
  EXPECT_EQ(text_of(plan),
            "licence dl_gone: 2 -> \nlicence dl_nlp: 3 -> 2\nlicence dl_vision/a100:  -> 4\n"
            "licence dl_vision/borrow:  -> 8\n");
  EXPECT_NE(plan.licence_file.find("\nLicenses=matlab:10,dl_nlp:2,dl_vision/a100:4,dl_vision/borrow:8\n"),
            std::string::npos)
      << plan.licence_file;
  ASSERT_EQ(plan.warnings.size(), 4U);
  EXPECT_EQ(plan.warnings[0], "tenants have a quota of 6 GPUs in all; the nodes have 4");
  EXPECT_NE(plan.warnings[1].find("'dl_gone': jobs hold 1, more than the 0"), std::string::npos) << plan.warnings[1];
  EXPECT_NE(plan.warnings[2].find("'dl_nlp': jobs hold 3, more than the 2"), std::string::npos) << plan.warnings[2];
  EXPECT_NE(plan.warnings[3].find("max_user_gpus"), std::string::npos);
}

TEST(QuotaPlan, has_nothing_to_do_when_slurm_has_it) {
  SlurmHas slurm;
  slurm.licences = {{"matlab", 10}, {"dl_nlp", 2}, {"dl_vision/a100", 4}, {"dl_vision/borrow", 8}};
  EXPECT_EQ(text_of(plan_quotas(site(), slurm)), "");
  EXPECT_EQ(plan_quotas(site(), slurm).licence_file, "");
  slurm.accounting = slurm.enforces_limits = true;
  slurm.cluster = "c1";
  slurm.qos = {"normal", "borrow", "own"};
  read_associations(
      "root||1||normal\nvision||250||normal,borrow,own\nvision|alice|1|cpu=4,gres/gpu=3|normal\n"
      "nlp||100||normal,borrow,own\nnlp|alice|1||normal\nshort|line\n",
      &slurm);
  EXPECT_EQ(slurm.associations.size(), 5U);
  EXPECT_EQ(text_of(plan_quotas(site(), slurm)), "");
}

TEST(QuotaPlan, makes_accounts_shares_and_qos_with_slurmdbd) {
  SlurmHas slurm = has(true);
  slurm.qos = {"normal", "borrow"};
  read_associations("Vision||parent||normal,borrow\nvision|alice|1|gres/gpu=9|normal\nvision|bob|1|cpu=2|normal\n",
                    &slurm);
  const QuotaPlan plan = plan_quotas(site(), slurm);
  std::vector<std::string> commands;
  for (const Step& step : plan.steps) {
    std::string line;
    for (const std::string& word : step.command) line += word + " ";
    if (!line.empty()) commands.push_back(line);
  }
  const std::vector<std::string> expected = {
      "add qos own priority=1000 preempt=borrow ",
      "add account nlp cluster=c1 description=tenant organization=slurm-dl fairshare=100 ",
      "modify account where name=nlp cluster=c1 set qos+=borrow ",
      "modify account where name=nlp cluster=c1 set qos+=own ",
      "modify account where name=vision cluster=c1 set fairshare=250 ",
      "modify account where name=vision cluster=c1 set qos+=own ",
      "modify user where name=alice account=vision cluster=c1 set grptres=gres/gpu=3 ",
      "modify user where name=bob account=vision cluster=c1 set grptres=gres/gpu=3 "};
  EXPECT_EQ(commands, expected);
  slurm.enforces_limits = false;
  const auto warnings = plan_quotas(site(), slurm).warnings;
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
    return warning.find("AccountingStorageEnforce=limits") != std::string::npos;
  }));
}

TEST(QuotaPlan, reads_where_slurm_conf_is_and_what_it_includes) {
  SlurmHas slurm;
  std::string path;
  read_config(
      "AccountingStorageEnforce = associations,limits,qos\nAccountingStorageType   = accounting_storage/slurmdbd\n"
      "ClusterName             = c1\nSLURM_CONF              = /etc/slurm/slurm.conf\nSlurmctld at x\n",
      &slurm, &path);
  EXPECT_TRUE(slurm.accounting);
  EXPECT_TRUE(slurm.enforces_limits);
  EXPECT_EQ(slurm.cluster, "c1");
  EXPECT_EQ(path, "/etc/slurm/slurm.conf");
  for (const char* good : {"Include dl-licenses.conf", "a=b\n  include  /etc/slurm/dl-licenses.conf  # ours\nc=d"})
    EXPECT_TRUE(*includes_licences(good)) << good;
  for (const char* none : {"", "#Include dl-licenses.conf", "Include other.conf", "Include x-dl-licenses.conf2"})
    EXPECT_FALSE(*includes_licences(none)) << none;
  EXPECT_FALSE(includes_licences("Include dl-licenses.conf\nlicenses=matlab:1"));
  EXPECT_TRUE(includes_licences("#Licenses=matlab:1"));
}

}  // namespace
}  // namespace dl::ctl
