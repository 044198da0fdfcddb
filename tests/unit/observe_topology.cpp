// SPDX-License-Identifier: Apache-2.0
// Leaf switches from what scontrol prints. Texts without another word were recorded from the versions that are named.
#include <gtest/gtest.h>

#include "slurm-plugin/observe/topology.h"

namespace dl::observe {
namespace {

using Leaves = std::vector<std::pair<std::string, std::string>>;

Leaves leaves_of(std::string_view text) {
  Leaves leaves;
  for (const SwitchRecord& leaf : parse_topology(text)) leaves.emplace_back(leaf.name, leaf.nodes);
  return leaves;
}

// The same of 22.05.8, 24.11.5 and 26.05.5, with -o too.
TEST(Topology, OfATreeIsItsLowestSwitches) {
  EXPECT_EQ(leaves_of("SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
                      "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
                      "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[1-2]\n"),
            (Leaves{{"s1", "n[1-2]"}, {"s2", "n[3-4]"}}));
}

// 24.11.5 and 26.05.5.
TEST(Topology, OfBlocksIsTheBlocksThemselves) {
  EXPECT_EQ(leaves_of("BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
                      "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
                      "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4\n"),
            (Leaves{{"b1", "n[1-2]"}, {"b2", "n[3-4]"}}));
  // By 23.11's source: no size.
  EXPECT_EQ(leaves_of("BlockName=b1 BlockIndex=0 Nodes=n[1-18]\n"), (Leaves{{"b1", "n[1-18]"}}));
}

// By 26.05's source.
TEST(Topology, OfRingsIsTheRings) {
  EXPECT_EQ(leaves_of("RingName=r1 Nodes=n[1-4] RingSize=4\n"), (Leaves{{"r1", "n[1-4]"}}));
  EXPECT_EQ(leaves_of("TorusName=t Dims=2x2x1 Nodes=n[1-4]\n"), Leaves{});
}

// 26.05.5, from topology.yaml: a default that is flat prints nothing; a tree of the name "fat tree"; blocks.
TEST(Topology, OfSeveralIsEachOfThem) {
  EXPECT_EQ(leaves_of(""), Leaves{});
  EXPECT_EQ(leaves_of("SwitchName=top Level=1 LinkSpeed=0 Nodes=n[1-2] Switches=s[1-2]\n"
                      "SwitchName=s1 Level=0 LinkSpeed=0 Nodes=n1\n"
                      "SwitchName=s2 Level=0 LinkSpeed=0 Nodes=n2\n"),
            (Leaves{{"s1", "n1"}, {"s2", "n2"}}));
}

TEST(Topology, NamesMayHoldBlanks) {
  EXPECT_EQ(leaves_of("SwitchName=rack 1 Level=0 LinkSpeed=0 Nodes=n1\n"), (Leaves{{"rack 1", "n1"}}));
}

TEST(Topology, OfAnythingElseIsEmpty) {
  for (const char* text :
       {"scontrol: error: No topology information available\n", "slurm_load_topo error: Invalid\n",
        "SwitchName=", "SwitchName=s Level=0", "SwitchName=s Level=0 Nodes=", "SwitchName=s Level=01 Nodes=n1",
        "SwitchName=s Level=0 LinkSpeed=1 Switches=a", " Nodes=n1", "BlockName=b Nodes=n1", "RingName= Nodes="})
    EXPECT_EQ(leaves_of(text), Leaves{}) << text;
}

// 26.05.5, but that another one is the default.
const char* const kTopoConf = R"(%YAML 1.1
---
- topology: everywhere
  cluster_default: false
  block: {}
  flat: true
  ring: {}
  torus3d: {}
  tree: {}
- topology: fat tree
  cluster_default: true
  block: {}
  flat: {}
  ring: {}
  torus3d: {}
  tree:
    switches:
    - switch: top
      children: s[1-2]
      nodes:
    - switch: s1
      children:
      nodes: n1
- topology: blocks
  cluster_default: false
  block:
    block_sizes:
    - 1
    - 2
    blocks:
    - block: b1
      nodes: n3
  flat: {}
  ring: {}
  torus3d: {}
  tree: {}
...
)";

TEST(TopologyNames, BeginWithTheDefault) {
  EXPECT_EQ(parse_topology_names(kTopoConf), (std::vector<std::string>{"fat tree", "everywhere", "blocks"}));
}

TEST(TopologyNames, AreThoseThatScontrolTakes) {
  EXPECT_EQ(parse_topology_names("- topology: \"a b\"\n- topology: 'c'\n- topology: -o\n  cluster_default: true\n"
                                 "- topology: node=x\n- topology:\n  - topology: inner\n"),
            (std::vector<std::string>{"a b", "c"}));
  EXPECT_EQ(parse_topology_names(""), std::vector<std::string>{});
  EXPECT_EQ(parse_topology_names("cluster_default: true\n"), std::vector<std::string>{});
}

}  // namespace
}  // namespace dl::observe
