// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/spank/step_facts.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace dl {
namespace {

std::string words(std::initializer_list<const char*> list) {
  std::string line;
  for (const char* word : list) line.append(word).push_back('\0');
  return line;
}

TEST(CommandLine, tells_srun_the_number_of_learners) {
  EXPECT_EQ(learners_on_command_line(words({"srun", "--dl-learners=4", "hostname"})), "4");
  EXPECT_EQ(learners_on_command_line(words({"srun", "--dl-learners", "4", "hostname"})), "4");
  EXPECT_EQ(learners_on_command_line(words({"srun", "--dl-learners=4", "--dl-learners=2:8", "x"})), "2:8");
  EXPECT_EQ(learners_on_command_line(words({"srun", "--", "x", "--dl-learners=4"})), "");
  EXPECT_EQ(learners_on_command_line(words({"srun", "--dl-learnersx=4", "x"})), "");
  EXPECT_EQ(learners_on_command_line(words({"srun", "--dl-learners"})), "");
  EXPECT_EQ(learners_on_command_line(""), "");
  EXPECT_EQ(learners_on_command_line("srun"), "");
}

TEST(StepFacts, AnOptionIsFoundOnACommandLineAndInAScript) {
  EXPECT_TRUE(has_option(words({"sbatch", "--mem-per-gpu=4G", "x.sh"}), "--mem-per-gpu"));
  EXPECT_TRUE(has_option(words({"sbatch", "--mem-per-gpu", "4G", "x.sh"}), "--mem-per-gpu"));
  EXPECT_FALSE(has_option(words({"sbatch", "--mem-per-gpux=4G", "--", "--mem-per-gpu=1"}), "--mem-per-gpu"));
  EXPECT_TRUE(script_has_option("#!/bin/sh\n#SBATCH -N1 --mem-per-gpu=4G\n", "--mem-per-gpu"));
  EXPECT_TRUE(script_has_option("#!/bin/sh\r\n#SBATCH\t--mem-per-gpu 4G\r\n", "--mem-per-gpu"));
  EXPECT_FALSE(script_has_option("#!/bin/sh\n# --mem-per-gpu=4G\necho --mem-per-gpu=4G\n", "--mem-per-gpu"));
  EXPECT_FALSE(script_has_option("#SBATCH --mem-per-gpu=4G\n", "--mem-per-gpu")) << "no script";
}

TEST(FirstHost, is_that_of_rank_0) {
  EXPECT_EQ(first_host("n1"), "n1");
  EXPECT_EQ(first_host("n[1-4]"), "n1");
  EXPECT_EQ(first_host("node[003,007-009]"), "node003");
  EXPECT_EQ(first_host("n[7,2]x,m"), "n7x");
  EXPECT_EQ(first_host("r[1-2]n[04-05]"), "r1n04");
  EXPECT_EQ(first_host("a,b[1-2]"), "a");
  EXPECT_EQ(first_host("n[1-4"), "");
  EXPECT_EQ(first_host(""), "");
}

TEST(PlaceAcrossNodes, counts_the_tasks_with_the_same_number_on_their_node) {
  using Pair = std::pair<int, int>;
  EXPECT_EQ(place_across_nodes("2,1", 2, 0, 0), Pair(0, 2));
  EXPECT_EQ(place_across_nodes("2,1", 2, 0, 1), Pair(0, 1));
  EXPECT_EQ(place_across_nodes("2,1", 2, 1, 0), Pair(1, 2));
  EXPECT_EQ(place_across_nodes("1,3(x2)", 3, 2, 2), Pair(1, 2));
  for (const char* bad : {"", "2", "2,1,1", "2,x", "2(x9)", "-1,2"})
    EXPECT_EQ(place_across_nodes(bad, 2, 0, 0), Pair(0, 0)) << bad;
  EXPECT_EQ(place_across_nodes("2,1", 2, 2, 0), Pair(0, 0));
  EXPECT_EQ(place_across_nodes("2,1", -1, 0, 0), Pair(0, 0));
}

TEST(RendezvousPort, is_outside_the_ephemeral_range_and_differs_between_neighbours) {
  for (uint32_t job : {0U, 1U, 15999U, 16000U, 4294967295U})
    for (uint32_t step : {0U, 1U, 4000U}) {
      EXPECT_GE(rendezvous_port(job, step), 16384);
      EXPECT_LT(rendezvous_port(job, step), 32384);
    }
  EXPECT_NE(rendezvous_port(1, 0), rendezvous_port(2, 0));
  EXPECT_NE(rendezvous_port(1, 0), rendezvous_port(1, 1));
}

}  // namespace
}  // namespace dl
