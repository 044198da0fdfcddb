// SPDX-License-Identifier: Apache-2.0
// dlctl doctor's checks of dl.toml against Slurm: tiers, preemption, time to save, quotas, licences, accounts,
// dlpolicyd, networks.
#include "tests/unit/ctl_doctor.h"

namespace dl::ctl::doctor {
namespace {

std::string tenants() {
  return std::string(kGoodTiers) + "[tenants.bio]\nquota = 2\n[tenants.nlp]\nquota = 2\n";
}

// With the licences that the tenants need, and a dlpolicyd.
Facts site_of_tenants(const std::string& toml = tenants()) {
  Facts facts = good_site(toml);
  facts.cluster.has.licences = {{"dl_bio", 2}, {"dl_nlp", 2}};
  facts.policyd_runs = true;
  facts.policyd_age_s = 1;
  return facts;
}

TEST(DoctorSite, a_fault_of_dl_toml_is_told_with_its_line) {
  Facts facts = good_site("[nodes]\ngpus_per_nod = 2\n");
  ASSERT_FALSE(facts.site);
  EXPECT_EQ(first(facts, "dl.toml").place, "/etc/slurm/dl.toml:2");
  EXPECT_NE(first(facts, "dl.toml").text.find("gpus_per_nod"), std::string::npos);
  EXPECT_EQ(text_of(facts, "tiers"), "not looked at, since dl.toml cannot be used");
  facts.admin = false;
  EXPECT_NE(first(facts, "dl.toml").text.find("only an administrator can mend it"), std::string::npos);
}

TEST(DoctorSite, dl_toml_is_one_file_that_nobody_else_writes) {
  Facts facts = good_site();
  facts.site_file.others_write = true;
  EXPECT_EQ(wrongs(facts, "dl.toml"), 1);
  facts = good_site();
  facts.same_site = false;
  facts.controller_site = "/opt/slurm/dl.toml";
  EXPECT_EQ(first(facts, "dl.toml").place, "/opt/slurm/dl.toml");
  facts = good_site();
  facts.handed_out = true;
  EXPECT_EQ(grade_of(facts, "dl.toml"), Grade::kNote);
  facts = good_site();
  facts.site_file.there = false;
  EXPECT_EQ(grade_of(facts, "dl.toml"), Grade::kOk);
}

TEST(DoctorSite, tiers_and_nodes_are_as_slurm_has_them) {
  const Facts facts =
      good_site("[nodes]\ngpus_per_node = 4\n[tiers.guaranteed]\npartition = \"bach\"\n[tiers.borrow]\nqos = \"lo\"\n");
  const auto found = found_by(facts, "tiers");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].text, "[tiers.guaranteed]: Slurm has no partition 'bach'; it has batch, borrow");
  EXPECT_EQ(found[0].place, "/etc/slurm/dl.toml:3");
  EXPECT_EQ(found[2].line, "gpus_per_node = 2");
}

TEST(DoctorSite, the_borrow_tier_gives_way) {
  Facts facts = good_site();
  set(&facts.config, "preempt/partition_prio", "preempt/none");
  EXPECT_EQ(first(facts, "preemption").line, "PreemptType=preempt/partition_prio");
  facts = good_site();
  set(&facts.partitions, "PriorityTier=10", "PriorityTier=1");
  EXPECT_EQ(first(facts, "preemption").place, "/etc/slurm/slurm.conf:3");
  EXPECT_EQ(first(facts, "preemption").line, "PartitionName=batch ... PriorityTier=2");
  facts = good_site();
  set(&facts.partitions, "PreemptMode=REQUEUE", "PreemptMode=CANCEL");
  EXPECT_NE(text_of(facts, "preemption").find("PreemptMode CANCEL: its jobs are ended for good; allowed: REQUEUE"),
            std::string::npos);
  facts = good_site();
  set(&facts.partitions, "GraceTime=20", "GraceTime=0");
  EXPECT_EQ(first(facts, "preemption").line, "PartitionName=borrow ... GraceTime=120");
  EXPECT_EQ(grade_of(good_site(""), "preemption"), Grade::kNote);
}

TEST(DoctorSite, a_qos_gives_way_too) {
  Facts facts = good_site("[tiers.guaranteed]\nqos = \"own\"\n[tiers.borrow]\nqos = \"lent\"\n");
  set(&facts.config, "preempt/partition_prio", "preempt/qos");
  facts.qos = "normal||cluster|00:00:00\nown|lent|cluster|00:00:00\nlent||requeue|00:00:30\n";
  EXPECT_EQ(grade_of(facts, "preemption"), Grade::kOk) << text_of(facts, "preemption");
  EXPECT_EQ(text_of(facts, "grace"),
            "GraceTime of QOS 'lent' is 30 s; no job that runs has told yet how long its saves take");
  set(&facts.qos, "own|lent", "own|");
  EXPECT_EQ(first(facts, "preemption").line, "sacctmgr modify qos own set preempt+=lent");
  facts.qos.clear();
  EXPECT_EQ(grade_of(facts, "preemption"), Grade::kNote);
}

TEST(DoctorSite, with_tenants_slurm_leaves_the_choice_to_dlpolicyd) {
  Facts facts = site_of_tenants();
  EXPECT_EQ(grade_of(facts, "preemption"), Grade::kNote);
  set(&facts.config, "preempt/partition_prio", "preempt/none");
  EXPECT_EQ(text_of(facts, "preemption"), "dlpolicyd alone chooses who gives way");
}

TEST(DoctorSite, the_longest_save_fits_the_time_to_give_way) {
  Facts facts = good_site();
  facts.saves = {{"12", 3.0}, {"13", 19.5}};
  EXPECT_EQ(grade_of(facts, "grace"), Grade::kOk);
  facts.saves = {{"13", 25.5}, {"12", 3.0}};
  EXPECT_NE(
      text_of(facts, "grace").find("GraceTime of partition 'borrow' is 20 s, and the saves of job 13 take 25.5 s"),
      std::string::npos);
  EXPECT_EQ(first(facts, "grace").line, "PartitionName=borrow ... GraceTime=52");
  facts = site_of_tenants(tenants() + "[quota]\ngrace = \"10s\"\n");
  facts.saves = {{"13", 15}};
  EXPECT_EQ(wrongs(facts, "grace"), 1);
  EXPECT_EQ(first(facts, "grace").place, "/etc/slurm/dl.toml:9");
}

TEST(DoctorSite, times_of_slurm_that_jobs_need) {
  const auto graded = [](const std::string& from, const std::string& to) {
    Facts facts = good_site();
    set(&facts.config, from, to);
    return grade_of(facts, "requeue");
  };
  EXPECT_EQ(graded("JobRequeue = 1", "JobRequeue = 0"), Grade::kNote);
  EXPECT_EQ(graded("KillWait = 30", "KillWait = 2"), Grade::kNote);
  EXPECT_EQ(graded("OverTimeLimit = 0 min", "OverTimeLimit = UNLIMITED"), Grade::kNote);
  EXPECT_EQ(graded("SlurmdTimeout = 300", "SlurmdTimeout = 0"), Grade::kWrong);
  EXPECT_EQ(graded("SlurmdTimeout = 300", "SlurmdTimeout = 3600"), Grade::kNote);
  EXPECT_EQ(graded("MaxArraySize = 1001", "MaxArraySize = 0"), Grade::kNote);
  EXPECT_EQ(graded("bf_interval=2", "bf_interval=2,disable_job_shrink"), Grade::kNote);
}

TEST(DoctorSite, quotas_promise_no_more_than_there_is) {
  EXPECT_EQ(text_of(site_of_tenants(), "quotas"), "quotas promise 4 of 4 GPUs");
  EXPECT_EQ(wrongs(site_of_tenants(tenants() + "[tenants.art]\nquota = 1\n"), "quotas"), 1);
  EXPECT_EQ(wrongs(site_of_tenants(tenants() + "[tenant_groups.all]\nquota = 1\n"), "quotas"), 1);
  const Facts typed = site_of_tenants("[nodes]\ntypes = { a100 = 2 }\n[tenants.bio]\nquota = { a100 = 2 }\n");
  EXPECT_NE(text_of(typed, "quotas").find("promise 2 GPUs of type a100, and Slurm's nodes have 0"), std::string::npos);
}

TEST(DoctorSite, licences_stand_for_quotas) {
  Facts facts = site_of_tenants();
  EXPECT_EQ(grade_of(facts, "licences"), Grade::kOk) << text_of(facts, "licences");
  facts.cluster.has.licences = {{"dl_bio", 1}};
  EXPECT_EQ(wrongs(facts, "licences"), 2);
  EXPECT_NE(first(facts, "licences").text.find("licence 'dl_bio': Slurm has 1, the quotas of dl.toml need 2"),
            std::string::npos);
  EXPECT_EQ(first(facts, "licences").place, "/etc/slurm/dl-licenses.conf");
  facts = site_of_tenants();
  facts.slurm_conf.text = "ClusterName=c1\n";
  EXPECT_EQ(first(facts, "licences").line, "Include dl-licenses.conf");
  facts.slurm_conf.text = "ClusterName=c1\nLicenses=matlab:3\n";
  EXPECT_EQ(first(facts, "licences").place, "/etc/slurm/slurm.conf:2");
  facts = good_site();
  facts.cluster.has.licences = {{"dl_old", 1}};
  EXPECT_EQ(grade_of(facts, "licences"), Grade::kNote);
}

TEST(DoctorSite, tenants_are_accounts) {
  Facts facts = site_of_tenants();
  EXPECT_EQ(grade_of(facts, "accounts"), Grade::kOk);
  facts.cluster.has.accounting = true;
  set(&facts.config, "AuthType", "AccountingStorageEnforce = associations,limits\nAuthType");
  facts.cluster.has.associations = {
      {"bio", "", "1", "", {}}, {"bio", "ann", "1", "", {}}, {"NLP", "", "1", "", {}}, {"nlp", "bob", "1", "", {}}};
  EXPECT_EQ(text_of(facts, "accounts"), "all tenants are accounts of slurmdbd's");
  facts.cluster.has.associations.pop_back();
  EXPECT_EQ(grade_of(facts, "accounts"), Grade::kNote);
  facts.cluster.has.associations.pop_back();
  EXPECT_EQ(first(facts, "accounts").place, "/etc/slurm/dl.toml:7");
  EXPECT_EQ(wrongs(facts, "accounts"), 1);
  facts.accounting_fault = "sacctmgr show: no connection";
  EXPECT_EQ(grade_of(facts, "accounts"), Grade::kNote);
  facts.accounting_fault.clear();
  facts.accounts = {"bio"};
  EXPECT_EQ(grade_of(facts, "user"), Grade::kOk);
  facts.accounts = {"art"};
  EXPECT_EQ(grade_of(facts, "user"), Grade::kNote);
}

TEST(DoctorSite, accounts_that_are_not_enforced_are_noted) {
  Facts facts = site_of_tenants(std::string(kGoodTiers) + "[tenants.bio]\nquota = 2\n");
  facts.cluster.has.accounting = true;
  facts.cluster.has.associations = {{"bio", "", "1", "", {}}, {"bio", "ann", "1", "", {}}};
  EXPECT_EQ(first(facts, "accounts").line, "AccountingStorageEnforce=associations,limits,qos");
}

TEST(DoctorSite, dlpolicyd_runs_and_has_looked_lately) {
  Facts facts = site_of_tenants();
  EXPECT_EQ(text_of(facts, "dlpolicyd"), "dlpolicyd runs; its last round was 1 s ago");
  facts.policyd_age_s = 600;
  EXPECT_EQ(wrongs(facts, "dlpolicyd"), 1);
  facts.policyd_runs = false;
  EXPECT_EQ(grade_of(facts, "dlpolicyd"), Grade::kNote);
  set(&facts.config, "priority/multifactor", "priority/basic");
  EXPECT_EQ(first(facts, "dlpolicyd").line, "PriorityType=priority/multifactor");
}

TEST(DoctorSite, networks_of_jobs_need_prolog_flags) {
  const std::string toml =
      std::string(kGoodTiers) + "[network]\nenforce = \"nftables\"\n[tenants.bio]\nquota = 2\nnetwork = \"job\"\n";
  Facts facts = site_of_tenants(toml);
  ASSERT_TRUE(facts.site) << facts.site_fault;
  EXPECT_EQ(grade_of(facts, "network"), Grade::kOk);
  set(&facts.config, "Alloc,Contain", "NoHold");
  EXPECT_EQ(first(facts, "network").line, "PrologFlags=NoHold,Alloc");
}

}  // namespace
}  // namespace dl::ctl::doctor
