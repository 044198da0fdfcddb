// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "launcher/bind/share.h"

namespace dl::bind {
namespace {

class Topology {
 public:
  // hwloc's description: "pack:2 core:4 pu:2"
  explicit Topology(const std::string& description) {
    hwloc_topology_init(&topology_);
    EXPECT_EQ(hwloc_topology_set_synthetic(topology_, description.c_str()), 0) << description;
    EXPECT_EQ(hwloc_topology_load(topology_), 0);
  }
  ~Topology() { hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
  void keep(const char* cpus) {
    const Bitmap set = of(cpus);
    ASSERT_EQ(hwloc_topology_restrict(topology_, set.get(), 0), 0);
  }
  static Bitmap of(const char* list) {
    Bitmap set = make_bitmap();
    hwloc_bitmap_list_sscanf(set.get(), list);
    return set;
  }
  hwloc_topology_t get() { return topology_; }

 private:
  hwloc_topology_t topology_ = nullptr;
};

std::vector<std::string> shares(Topology& topology, BindMode mode, int learners, const char* gpu_cpus = "") {
  std::vector<std::string> lists;
  const Bitmap near = Topology::of(gpu_cpus);
  for (int rank = 0; rank < learners; ++rank) {
    const auto share = share_of(topology.get(), mode, {rank, learners}, near.get());
    lists.push_back(share ? list_of(share->cpus.get()) + (mode == BindMode::kNuma ? " of " : "") +
                                list_of(share->memory.get())
                          : share.error().text);
  }
  return lists;
}

using Lists = std::vector<std::string>;

TEST(BindShare, CoresAreDividedAmongNeighbours) {
  Topology plain("pack:2 core:4 pu:1");
  EXPECT_EQ(shares(plain, BindMode::kCores, 1), Lists{"0-7"});
  EXPECT_EQ(shares(plain, BindMode::kCores, 2), (Lists{"0-3", "4-7"}));
  EXPECT_EQ(shares(plain, BindMode::kCores, 4), (Lists{"0-1", "2-3", "4-5", "6-7"}));
  EXPECT_EQ(shares(plain, BindMode::kCores, 8), (Lists{"0", "1", "2", "3", "4", "5", "6", "7"}));
}

TEST(BindShare, ThreadsOfACoreStayTogether) {
  Topology threads("pack:1 core:4 pu:2");
  EXPECT_EQ(shares(threads, BindMode::kCores, 2), (Lists{"0-3", "4-7"}));
  EXPECT_EQ(shares(threads, BindMode::kCores, 4), (Lists{"0-1", "2-3", "4-5", "6-7"}));
}

// Whatever the shape and the number: nobody is without a CPU, together they have all, and as long as there is a core
// for each no CPU is given twice.
TEST(BindShare, EveryNumberOfLearnersOnEveryShape) {
  for (const char* shape : {"pack:1 core:1 pu:1", "pack:1 core:2 pu:1", "pack:2 core:3 pu:2",
                            "pack:2 numa:2 core:4 pu:2", "pack:4 l3:2 core:3 pu:1", "numa:8 core:8 pu:2"}) {
    Topology topology(shape);
    const int cores = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE);
    for (int learners = 1; learners <= cores + 3; ++learners) {
      const Bitmap all = make_bitmap();
      int given = 0;
      for (int rank = 0; rank < learners; ++rank) {
        const auto share = share_of(topology.get(), BindMode::kCores, {rank, learners}, nullptr);
        ASSERT_TRUE(share) << shape;
        const int weight = hwloc_bitmap_weight(share->cpus.get());
        EXPECT_GT(weight, 0) << shape << ", " << rank << " of " << learners;
        given += weight;
        hwloc_bitmap_or(all.get(), all.get(), share->cpus.get());
      }
      EXPECT_NE(hwloc_bitmap_isequal(all.get(), hwloc_topology_get_topology_cpuset(topology.get())), 0)
          << shape << ", " << learners;
      if (learners <= cores) {
        EXPECT_EQ(given, hwloc_bitmap_weight(all.get())) << shape << ", " << learners;
      }
    }
  }
}

TEST(BindShare, OnlyWhatMayBeUsedIsDivided) {
  Topology topology("pack:2 core:4 pu:1");
  topology.keep("2-3,6-7");
  EXPECT_EQ(shares(topology, BindMode::kCores, 2), (Lists{"2-3", "6-7"}));
  EXPECT_EQ(shares(topology, BindMode::kCores, 4), (Lists{"2", "3", "6", "7"}));
  EXPECT_EQ(shares(topology, BindMode::kNone, 1), Lists{"2-3,6-7"});
}

TEST(BindShare, NumaNodesInBlocks) {
  Topology topology("pack:2 [numa] core:4 pu:1");
  EXPECT_EQ(shares(topology, BindMode::kNuma, 4), (Lists{"0-3 of 0", "0-3 of 0", "4-7 of 1", "4-7 of 1"}));
  EXPECT_EQ(shares(topology, BindMode::kNuma, 2), (Lists{"0-3 of 0", "4-7 of 1"}));
  EXPECT_EQ(shares(topology, BindMode::kNuma, 1), Lists{"0-3 of 0"});
  EXPECT_EQ(shares(topology, BindMode::kNuma, 3), (Lists{"0-3 of 0", "0-3 of 0", "4-7 of 1"}));
}

TEST(BindShare, TheNumaNodeOfItsGpus) {
  Topology topology("pack:2 [numa] core:4 pu:1");
  EXPECT_EQ(shares(topology, BindMode::kNuma, 2, "4-7"), (Lists{"4-7 of 1", "4-7 of 1"}));
  EXPECT_EQ(shares(topology, BindMode::kNuma, 1, "0-7"), Lists{"0-7 of 0-1"});
  // GPUs whose neighbours are not the job's say nothing.
  topology.keep("0-3");
  EXPECT_EQ(shares(topology, BindMode::kNuma, 1, "4-7"), Lists{"0-3 of 0"});
}

TEST(BindShare, APlaceThatIsNone) {
  Topology topology("core:2 pu:1");
  for (const Place place : {Place{-1, 2}, Place{2, 2}, Place{0, 0}, Place{0, -1}}) {
    const auto share = share_of(topology.get(), BindMode::kCores, place, nullptr);
    ASSERT_FALSE(share);
    EXPECT_NE(share.error().text.find("is out of range"), std::string::npos);
  }
}

TEST(BindShare, WhereSlurmDoesNotConfineJobs) {
  EXPECT_TRUE(not_confined({64, 64, 32, 8}));    // all are usable, eight are the job's
  EXPECT_FALSE(not_confined({64, 8, 8, 8}));     // confined
  EXPECT_FALSE(not_confined({64, 16, 8, 8}));    // Slurm counts cores, both threads of each are usable
  EXPECT_FALSE(not_confined({64, 64, 32, 32}));  // the whole node, counted in cores
  EXPECT_FALSE(not_confined({64, 64, 32, 64}));  // or in threads
  EXPECT_FALSE(not_confined({64, 64, 32, 0}));   // no Slurm
}

TEST(BindMode, Names) {
  for (const BindMode mode : {BindMode::kNone, BindMode::kCores, BindMode::kNuma})
    EXPECT_EQ(*parse_bind(bind_name(mode)), mode);
  for (const char* bad : {"", "core", "Cores", "numa ", "1", "none,cores"}) {
    const auto mode = parse_bind(bad);
    ASSERT_FALSE(mode) << bad;
    EXPECT_EQ(mode.error().text, "'" + std::string(bad) + "' is not a way to bind; allowed: none, cores, numa");
  }
}

}  // namespace
}  // namespace dl::bind
