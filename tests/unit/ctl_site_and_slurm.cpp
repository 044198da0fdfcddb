// SPDX-License-Identifier: Apache-2.0
// dlctl config check: what dl.toml says and Slurm does not have.
#include <gtest/gtest.h>

#include "launcher/ctl/site_and_slurm.h"

namespace dl::ctl {
namespace {

SlurmCluster slurm_of(const std::string& gres, bool accounting) {
  SlurmCluster slurm;
  read_partitions("PartitionName=batch AllowGroups=ALL Nodes=n[1-2]\nPartitionName=borrow Default=NO\n", &slurm);
  read_nodes("NodeName=n1 Arch=x86_64 Gres=" + gres + " NodeAddr=n1\nNodeName=n2 Gres=" + gres +
                 "\nNodeName=c1 Arch=x86_64 Gres=(null) NodeAddr=c1\n",
             &slurm);
  slurm.has.accounting = accounting;
  slurm.has.qos = {"normal", "low"};
  return slurm;
}

std::vector<std::string> told(const std::string& toml, const SlurmCluster& slurm) {
  const auto site = parse_site_config(toml, "dl.toml");
  EXPECT_TRUE(site) << site.error().text;
  return site ? differences(*site, slurm) : std::vector<std::string>{};
}

using Sentences = std::vector<std::string>;

TEST(SiteAndSlurm, where_all_is_as_the_file_says_there_is_nothing_to_tell) {
  EXPECT_EQ(told("[nodes]\ngpus_per_node = 2\n[tiers.guaranteed]\npartition = \"batch\"\n[tiers.borrow]\npartition = "
                 "\"borrow\"\n",
                 slurm_of("gpu:2(S:0)", false)),
            Sentences{});
  EXPECT_EQ(told("[nodes]\ntypes = { a100 = 4 }\ncounts = { a100 = 2 }\n[tiers.borrow]\nqos = \"low\"\n",
                 slurm_of("gpu:a100:4(S:0-1)", true)),
            Sentences{});
  EXPECT_EQ(told("", slurm_of("(null)", false)), Sentences{});
}

TEST(SiteAndSlurm, tiers_that_slurm_does_not_have_are_named_with_those_that_it_has) {
  const std::string toml = "[tiers.guaranteed]\npartition = \"bach\"\n[tiers.borrow]\nqos = \"lo\"\n";
  EXPECT_EQ(told(toml, slurm_of("gpu:2", true)),
            (Sentences{"[tiers.guaranteed]: Slurm has no partition 'bach'; it has batch, borrow",
                       "[tiers.borrow]: Slurm has no QOS 'lo'; it has normal, low"}));
  EXPECT_EQ(told(toml, slurm_of("gpu:2", false)).back(),
            "[tiers.borrow]: QOS 'lo' needs slurmdbd, which this cluster does not have; allowed: partition = \"...\"");
}

TEST(SiteAndSlurm, gpus_and_nodes_are_counted) {
  EXPECT_EQ(told("[nodes]\ngpus_per_node = 4\n", slurm_of("gpu:2(S:0)", false)),
            Sentences{"[nodes] gpus_per_node = 4: a node of Slurm's has up to 2 GPUs"});
  EXPECT_EQ(told("[nodes]\ncounts = { gpu = 3 }\n", slurm_of("gpu:2", false)),
            Sentences{"[nodes.counts] gpu = 3: Slurm has 2 nodes with such GPUs"});
  EXPECT_EQ(told("[nodes]\ncounts = { gpu = 2 }\n", slurm_of("gpu:2", false)), Sentences{});
  const SlurmCluster mixed = slurm_of("gpu:a100:4,gpu:h100:4", false);
  EXPECT_EQ(told("[nodes]\ngpus_per_node = 8\n", mixed), Sentences{});
  EXPECT_EQ(told("[nodes]\ngpus_per_node = 4\n", mixed),
            Sentences{"[nodes] gpus_per_node = 4: a node of Slurm's has up to 8 GPUs"});
  EXPECT_EQ(told("[nodes]\ngpus_per_node = 4\n", slurm_of("(null)", false)),
            Sentences{"[nodes]: no node of Slurm's has GPUs"});
  EXPECT_EQ(told("[nodes]\ntypes = { a100 = 8, h100 = 4 }\ncounts = { a100 = 3 }\n", slurm_of("gpu:a100:4", false)),
            (Sentences{"[nodes.types] a100 = 8: a node of Slurm's has up to 4 of them",
                       "[nodes.types] h100: no node of Slurm's has GPUs of this type; it has a100",
                       "[nodes.counts] a100 = 3: Slurm has 2 nodes with such GPUs"}));
}

TEST(SiteAndSlurm, licences_that_quota_sync_has_not_made_are_missed_and_those_of_gone_tenants_are_not) {
  SlurmCluster slurm = slurm_of("gpu:2", false);
  read_licences("LicenseName=dl_gone Total=2 Used=0 Free=2 Reserved=0 Remote=no\n", &slurm.has);
  const std::string toml = "[nodes]\ngpus_per_node = 2\n[tenants.a]\nquota = 2\nborrow_limit = 4\n";
  const Sentences missing = told(toml, slurm);
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(
      missing[0].rfind("[tenants]: Slurm does not have the licences that stand for their GPUs (dl_a, dl_a/borrow)", 0),
      0U)
      << missing[0];
  EXPECT_NE(missing[0].find("allowed: dlctl quota sync"), std::string::npos);
  read_licences(
      "LicenseName=dl_a Total=2 Used=0 Free=2 Reserved=0 Remote=no\n"
      "LicenseName=dl_a/borrow Total=4 Used=0 Free=4 Reserved=0 Remote=no\n",
      &slurm.has);
  EXPECT_EQ(told(toml, slurm), Sentences{});
}

}  // namespace
}  // namespace dl::ctl
