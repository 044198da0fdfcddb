// SPDX-License-Identifier: Apache-2.0
// Jobs that speak to their own nodes alone: the rules as text, and what is read to make them. That the kernel keeps
// them is shown in tests/cluster/hostile.bats.
#include <gtest/gtest.h>

#include "common/base/ip_prefix.h"
#include "slurm-plugin/network/rules.h"

namespace dl::network {
namespace {

TEST(Network, RulesNameTheJobsSocketsAndItsPeers) {
  const auto rules =
      rules_text(12, "unified/slurm-dl/net_4/job_12", 3, {"10.0.0.2", "fd00::/8", "10.0.0.2", "10.1.0.0/16"});
  ASSERT_TRUE(rules) << rules.error().text;
  for (const char* part : {"add table inet slurm_dl_12\ndelete table inet slurm_dl_12\ntable inet slurm_dl_12 {\n",
                           "elements = { 10.0.0.2, 10.1.0.0/16 }", "elements = { fd00::/8 }",
                           "hook output priority filter; policy accept; socket cgroupv2 level 3 "
                           "\"unified/slurm-dl/net_4/job_12\" jump out_of_job",
                           "hook input priority filter; policy accept; socket cgroupv2 level 3"})
    EXPECT_NE(rules->find(part), std::string::npos) << part << "\n" << *rules;
  const auto lonely = rules_text(1, "a/job_1", 2, {});
  ASSERT_TRUE(lonely);
  EXPECT_EQ(lonely->find("elements"), std::string::npos) << "a set of nothing is a fault to nft";
}

TEST(Network, NothingThatNftWouldReadOtherwiseGetsIntoTheRules) {
  EXPECT_FALSE(rules_text(1, "a\" accept; #", 1, {}));
  EXPECT_FALSE(rules_text(1, "", 1, {}));
  EXPECT_FALSE(rules_text(1, "a", 0, {}));
  for (const char* peer : {"host", "10.0.0.1; flush ruleset", "10.0.0.1 }", "", "10.0.0.0/33", "fd00::/129",
                           "10.0.0.0/", "10.0.0.0/8/8", "1e3", "fe80::1%eth0", "0x0a000001", "10.1"})
    EXPECT_FALSE(rules_text(1, "a", 1, {peer})) << peer;
  EXPECT_TRUE(parse_ip_prefix("::")->v6);
  EXPECT_FALSE(parse_ip_prefix("10.0.0.0/8")->v6);
}

TEST(Network, FindsTheHierarchyOfVersion2) {
  EXPECT_EQ(cgroup2_mount("25 1 0:2 / /proc rw - proc proc rw\n"
                          "31 24 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"),
            "/sys/fs/cgroup/unified");
  EXPECT_EQ(cgroup2_mount("31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), "/sys/fs/cgroup");
  EXPECT_FALSE(cgroup2_mount("31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"));
  EXPECT_FALSE(cgroup2_mount(""));
  EXPECT_EQ(depth_of("/slurm-dl/net_1/job_2"), 3);
  EXPECT_EQ(depth_of("/"), 0);
}

TEST(Network, TellsSlurmsOwnCgroupOfTheJob) {
  EXPECT_EQ(slurm_job_cgroup("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_3\n", 12),
            "/system.slice/slurmstepd.scope/job_12");
  EXPECT_EQ(slurm_job_cgroup("0::/system.slice/n1_slurmstepd.scope/job_12\n", 12),
            "/system.slice/n1_slurmstepd.scope/job_12");
  for (const char* other : {"0::/system.slice/slurmstepd.scope/job_123/step_0\n", "0::/\n", "",
                            "4:memory:/slurm/job_12\n", "0::/user.slice/job_12\n"})
    EXPECT_FALSE(slurm_job_cgroup(other, 12)) << other;
}

TEST(Network, ReadsAddressesFromSlurmConf) {
  const auto found = addresses_in(
      "ClusterName=x\nSlurmctldHost=ctl(10.0.0.1)\nslurmctldhost=backup\n#NodeName=n1 NodeAddr=6.6.6.6\n"
      "NodeName=n[1-3] NodeAddr=10.0.0.[11-13] CPUs=2\nNodeName=m1 CPUs=2\nNodeName=k1 NodeHostname=host1 # "
      "NodeAddr=7\n",
      {"n2", "m1", "k1", "unknown"});
  EXPECT_EQ(found.controllers, (std::vector<std::string>{"10.0.0.1", "backup"}));
  EXPECT_EQ(found.nodes, (std::vector<std::string>{"10.0.0.12", "m1", "host1", "unknown"}));
}

}  // namespace
}  // namespace dl::network
