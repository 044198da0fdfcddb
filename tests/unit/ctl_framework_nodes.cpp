// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/framework_nodes.h"

#include <gtest/gtest.h>

namespace dl::ctl {
namespace {

std::string row(const std::string& node, const std::string& rest) {
  return R"({"node":")" + node + R"(",)" + rest + "}\n";
}
std::string answer(const std::string& node, const std::string& torch, const std::string& probed = "true") {
  return row(node, R"("name":"pytorch","version":"2.4","here":")" + torch + R"(","probed":)" + probed) +
         row(node, R"("name":"generic","version":"","here":"","probed":false)") + row(node, R"("count":2)");
}

TEST(FrameworkNodes, NodesWithTheSameFindingShareALineAndTheSilentAreNamed) {
  const NodeAnswers merged = merge_answers(
      "Welcome to n1\n" + answer("n3", "2.4.1") + answer("n2", "") + answer("n1", "2.4.1"), {"n1", "n2", "n3", "n4"});
  ASSERT_EQ(merged.found.size(), 3U);
  EXPECT_EQ(merged.found[0].found, "2.4.1");
  EXPECT_EQ(merged.found[0].nodes, (std::vector<std::string>{"n1", "n3"}));
  EXPECT_EQ(merged.found[1].name, "pytorch");
  EXPECT_EQ(merged.found[1].found, "no");
  EXPECT_EQ(merged.found[1].nodes, (std::vector<std::string>{"n2"}));
  EXPECT_EQ(merged.found[2].name, "generic");
  EXPECT_EQ(merged.found[2].found, "-");
  EXPECT_EQ(merged.found[2].nodes.size(), 3U);
  EXPECT_EQ(merged.silent, (std::vector<std::string>{"n4"}));
}

// srun prints the lines of all nodes as they come.
TEST(FrameworkNodes, LinesOfSeveralNodesMayBeMixed) {
  const std::string first = row("n1", R"("name":"mpi","here":"4.1","probed":true)"), end = R"("count":1)";
  const NodeAnswers merged = merge_answers(
      first + row("n2", R"("name":"mpi","here":"4.1","probed":true)") + row("n2", end) + row("n1", end), {"n1", "n2"});
  ASSERT_EQ(merged.found.size(), 1U);
  EXPECT_EQ(merged.found[0].nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_TRUE(merged.silent.empty());
}

TEST(FrameworkNodes, ANodeThatEndedBeforeItsLastLineIsSilent) {
  const NodeAnswers merged = merge_answers(
      row("n1", R"("name":"mpi","here":"4.1")") + row("n1", R"("count":2)") + row("n2", R"("name":"mpi","here":"4.1")"),
      {"n1", "n2"});
  EXPECT_TRUE(merged.found.empty());
  EXPECT_EQ(merged.silent, (std::vector<std::string>{"n1", "n2"}));
}

TEST(FrameworkNodes, NonsenseIsPassedOverAndNobodyAnswersTwice) {
  const NodeAnswers merged =
      merge_answers("{\n[1]\n{\"node\":1,\"count\":0}\n" + row("n2", R"("name":4)") +
                        row("n2", R"("name":"x","probed":"yes")") + row("n2", R"("count":"two")") +
                        row("n2", R"("count":3)") + answer("n1", "\\u001b[2J", "3") + answer("n1", "2"),
                    {"n1"});
  ASSERT_EQ(merged.found.size(), 3U);
  EXPECT_EQ(merged.found[0].name, "x");
  EXPECT_EQ(merged.found[0].found, "-");
  EXPECT_EQ(merged.found[1].found.find('\x1b'), std::string::npos);
  EXPECT_EQ(merged.found[1].nodes, (std::vector<std::string>{"n1"}));
  EXPECT_TRUE(merged.silent.empty());
}

TEST(FrameworkNodes, AListIsExpandedOnceAndABadOneRefused) {
  auto nodes = nodes_to_ask("n[1-2],n1");
  ASSERT_TRUE(nodes);
  EXPECT_EQ(*nodes, (std::vector<std::string>{"n1", "n2"}));
  auto bad = nodes_to_ask("n[2");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().text.rfind("--nodes: ", 0), 0U) << bad.error().text;
}

}  // namespace
}  // namespace dl::ctl
