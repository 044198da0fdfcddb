// SPDX-License-Identifier: Apache-2.0
// The tree of sizes that dlckpt show draws: each group is the sum of its parts, and many small ones share a line.
#include "checkpoint/tools/size_tree.h"

#include <gtest/gtest.h>

namespace dl::ckpt::tool {
namespace {

void add_tensor(Manifest* manifest, const std::string& path, int64_t elements, dlckpt_dtype dtype = DLCKPT_F32) {
  TensorRecord tensor;
  tensor.path = path;
  tensor.dtype = find_dtype(dtype);
  tensor.shape = {elements};
  manifest->tensors.push_back(tensor);
}

// "LEVEL NAME BYTES" of each group.
std::vector<std::string> groups(const Manifest& manifest, int depth) {
  std::vector<std::string> lines;
  for (const SizeGroup& group : size_tree(manifest, depth))
    lines.push_back(std::to_string(group.level) + " " + group.name + " " + std::to_string(group.bytes));
  return lines;
}
using Lines = std::vector<std::string>;

TEST(SizeTree, GroupsEndAtSlashesAndDotsAndTheLargestComesFirst) {
  Manifest manifest;
  add_tensor(&manifest, "m/a.w", 1);
  add_tensor(&manifest, "m/b.w", 2);
  add_tensor(&manifest, "m/b.v", 3);
  add_tensor(&manifest, "o", 100, DLCKPT_BF16);
  EXPECT_EQ(groups(manifest, 1), (Lines{"0 o 200", "0 m/ 24"}));
  EXPECT_EQ(groups(manifest, 2), (Lines{"0 o 200", "0 m/ 24", "1 m/b. 20", "1 m/a. 4"}));
  EXPECT_EQ(groups(manifest, 9),
            (Lines{"0 o 200", "0 m/ 24", "1 m/b. 20", "2 m/b.v 12", "2 m/b.w 8", "1 m/a. 4", "2 m/a.w 4"}));
  EXPECT_TRUE(size_tree({}, 3).empty());
}

TEST(SizeTree, BlobsAndFilesAreCountedByThemselves) {
  Manifest manifest;
  add_tensor(&manifest, "m/w", 4);
  manifest.blobs.emplace_back();
  manifest.blobs.back().path = "m/state";
  manifest.blobs.back().size = 5;
  manifest.members.emplace_back();
  manifest.members.back().name = "m/file";
  manifest.members.back().size = 6;
  const auto tree = size_tree(manifest, 1);
  ASSERT_EQ(tree.size(), 1U);
  EXPECT_EQ(tree[0].bytes, 27U);
  EXPECT_EQ(tree[0].tensors, 1U);
  EXPECT_EQ(tree[0].blobs, 1U);
  EXPECT_EQ(tree[0].members, 1U);
  EXPECT_EQ(tree[0].dtypes, (std::map<std::string, uint64_t>{{"float32", 16}}));
  EXPECT_NE(draw(tree, 100, false)[0].find("1 tensor, 1 blob, 1 file  float32"), std::string::npos);
}

TEST(SizeTree, BarsAreSharesAndFitTheWidth) {
  Manifest manifest;
  add_tensor(&manifest, "a", 3000);
  add_tensor(&manifest, "b", 1000);
  for (const size_t width : {size_t{0}, size_t{80}, size_t{100}, size_t{400}}) {
    const auto lines = draw(size_tree(manifest, 1), width, false);
    ASSERT_EQ(lines.size(), 2U);
    const auto bar = [](const std::string& line) { return std::count(line.begin(), line.end(), '#'); };
    EXPECT_GE(bar(lines[0]), 8) << width;
    EXPECT_NEAR(static_cast<double>(bar(lines[0])), 3.0 * static_cast<double>(bar(lines[1])), 2) << width;
    EXPECT_NE(lines[0].find(" 75.0%"), std::string::npos);
    if (width >= 80) {
      EXPECT_LE(lines[0].size(), width);
    }
  }
  EXPECT_NE(draw(size_tree(manifest, 1), 80, true)[0].find("█"), std::string::npos);
  // Nothing is a share of nothing.
  Manifest empty;
  add_tensor(&empty, "a", 0);
  EXPECT_NE(draw(size_tree(empty, 1), 80, false)[0].find("  0.0%"), std::string::npos);
}

TEST(SizeTree, OfManySiblingsTheSmallOnesShareALine) {
  Manifest manifest;
  for (int i = 0; i < 30; ++i) add_tensor(&manifest, "m/" + std::to_string(i) + ".w", 100 - i);
  for (int i = 0; i < 30; ++i) add_tensor(&manifest, "n/" + std::to_string(i) + ".w", 1);
  const auto lines = draw(size_tree(manifest, 3), 100, false);
  // Of each of the two: itself, 24 parts with a part each, and one line for the other six.
  ASSERT_EQ(lines.size(), 2U * (1 + 24 * 2 + 1));
  EXPECT_EQ(lines[49].find("    and 6 more "), 0U) << lines[49];
  EXPECT_NE(lines[49].find("6 tensors  float32"), std::string::npos) << lines[49];
  EXPECT_EQ(lines[50].find("  n/ "), 0U) << lines[50];
  EXPECT_EQ(lines[99].find("    and 6 more "), 0U) << lines[99];
}

}  // namespace
}  // namespace dl::ckpt::tool
