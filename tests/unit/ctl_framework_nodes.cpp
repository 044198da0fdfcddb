// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/framework_nodes.h"

#include <gtest/gtest.h>

namespace dl::ctl {
namespace {

std::string answer(const std::string& node, const std::string& torch, const std::string& probed = "true") {
  return R"({"node":")" + node + R"(","frameworks":[{"name":"pytorch","version":"2.4","here":")" + torch +
         R"(","probed":)" + probed + R"(},{"name":"generic","version":"","here":"","probed":false}]})" + "\n";
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

TEST(FrameworkNodes, NonsenseIsPassedOverAndNobodyAnswersTwice) {
  const NodeAnswers merged = merge_answers(
      "{\n[1]\n{\"node\":1,\"frameworks\":[]}\n{\"node\":\"n1\"}\n"
      "{\"node\":\"n2\",\"frameworks\":[3,{\"name\":4},{\"name\":\"x\",\"probed\":\"yes\"}]}\n" +
          answer("n1", "\\u001b[2J", "3") + answer("n1", "2"),
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
