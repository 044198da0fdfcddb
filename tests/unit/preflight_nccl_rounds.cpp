// SPDX-License-Identifier: Apache-2.0
// Which nodes measure NCCL together, and what follows from it.
#include <gtest/gtest.h>

#include "launcher/preflight/nccl_rounds.h"

namespace dl::preflight {
namespace {

using Names = std::vector<std::string>;

NcclGroup fast(const Names& nodes, double gigabytes = 10) {
  NcclGroup group;
  group.nodes = nodes;
  group.bytes_per_s = gigabytes * 1e9;
  return group;
}
NcclGroup failed(const Names& nodes, const std::string& text = "no") {
  NcclGroup group;
  group.nodes = nodes;
  group.text = text;
  return group;
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += finding.node + " " + grade_name(finding.grade) + ": " + finding.text + "\n";
  return text;
}

TEST(PreflightNccl, NeighboursAreGroupsAndTheLastOfAnOddNumberIsTheThird) {
  EXPECT_TRUE(first_groups({}).empty());
  EXPECT_TRUE(first_groups({"a"}).empty());
  EXPECT_EQ(first_groups({"a", "b"}), (std::vector<Names>{{"a", "b"}}));
  EXPECT_EQ(first_groups({"a", "b", "c", "d", "e"}), (std::vector<Names>{{"a", "b"}, {"c", "d", "e"}}));
}

TEST(PreflightNccl, SuspectsMeetGoodNodes) {
  EXPECT_TRUE(second_groups({fast({"a", "b"}), fast({"c", "d"}, 9)}).empty());
  EXPECT_EQ(second_groups({failed({"a", "b"}), fast({"c", "d"})}), (std::vector<Names>{{"a", "c"}, {"b", "d"}}));
  EXPECT_EQ(second_groups({fast({"a", "b"}, 2), fast({"c", "d"})}), (std::vector<Names>{{"a", "c"}, {"b", "d"}}));
  EXPECT_EQ(second_groups({failed({"a", "b"}), fast({"c", "d"}), failed({"e", "f"})}),
            (std::vector<Names>{{"a", "c"}, {"b", "d"}}))
      << "no more than there are";
  EXPECT_TRUE(second_groups({failed({"a", "b"})}).empty());
  NcclGroup none = failed({"a", "b"});
  none.skipped = true;
  EXPECT_TRUE(second_groups({none, fast({"c", "d"})}).empty());
}

TEST(PreflightNccl, TheBadNodeOfAPairIsNamedOrElseTheLink) {
  const std::vector<NcclGroup> first = {failed({"a", "b"}, "timed out"), fast({"c", "d"})};
  EXPECT_EQ(text_of(judge_nccl(first, {fast({"a", "c"}), failed({"b", "d"}, "broken")})),
            "b bad: NCCL's all-reduce is slow or fails with a (timed out) and with d (broken)\n");
  EXPECT_EQ(text_of(judge_nccl(first, {fast({"a", "c"}), fast({"b", "d"})})),
            "a warning: NCCL's all-reduce with b: timed out; with another node it is good\n"
            "b warning: NCCL's all-reduce with a: timed out; with another node it is good\n");
  EXPECT_EQ(text_of(judge_nccl({failed({"a", "b"})}, {})),
            "a warning: NCCL's all-reduce with b: no; there is no other node to tell why\n"
            "b warning: NCCL's all-reduce with a: no; there is no other node to tell why\n");
  NcclGroup skipped = failed({"b", "d"}, "no NCCL");
  skipped.skipped = true;
  EXPECT_EQ(text_of(judge_nccl(first, {fast({"a", "c"}), skipped})),
            "a warning: NCCL's all-reduce with b: timed out; with another node it is good\n"
            "b warning: NCCL's all-reduce with a: timed out; with another node it could not be measured\n");
  EXPECT_EQ(
      text_of(judge_nccl({fast({"a", "b"}, 1), fast({"c", "d"}), fast({"e", "f"})},
                         {fast({"a", "c"}), fast({"b", "d"}, 1)})),
      "b bad: NCCL's all-reduce is slow or fails with a (1 GB/s, usual is 10) and with d (1 GB/s, usual is 10)\n");
  EXPECT_EQ(text_of(judge_nccl({fast({"a", "b"}), fast({"c", "d"}, 7)}, {})), "");
  // Where all differ much, none is an outlier.
  EXPECT_EQ(text_of(judge_nccl({fast({"a", "b"}, 4), fast({"c", "d"}, 10), fast({"e", "f"}, 16)}, {})), "");
}

TEST(PreflightNccl, AGroupIsAsSlowAsItsSlowestAndFailsWithOne) {
  NcclReport a, b;
  a.node = "a";
  b.node = "b";
  a.bytes_per_s = 5e9;
  b.bytes_per_s = 4e9;
  EXPECT_EQ(put_together({"a", "b"}, {a, b}).bytes_per_s, 4e9);
  EXPECT_EQ(put_together({"a", "b"}, {a}).text, "b sent no report");
  EXPECT_FALSE(put_together({"a", "b"}, {a}).bytes_per_s);
  b.bytes_per_s.reset();
  b.text = "broken";
  EXPECT_EQ(put_together({"a", "b"}, {a, b}).text, "broken");
  EXPECT_FALSE(put_together({"a", "b"}, {a, b}).bytes_per_s);
  b.skipped = true;
  EXPECT_TRUE(put_together({"a", "b"}, {a, b}).skipped);
  const auto back = parse_nccl_report(format_nccl_report(a));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->node, "a");
  EXPECT_EQ(back->bytes_per_s, 5e9);
  for (const char* bad : {"", "{}", "[]", "1", R"({"node":1,"text":"","skipped":false})",
                          R"({"node":"a","text":"","skipped":false,"bytes_per_s":"x"})"})
    EXPECT_FALSE(parse_nccl_report(bad)) << bad;
}

}  // namespace
}  // namespace dl::preflight
