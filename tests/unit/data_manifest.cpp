// SPDX-License-Identifier: Apache-2.0
// Manifests: which names are refused, what is one set, how nodes share one.
#include "launcher/data/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace dl::data {
namespace {

Entry file(const std::string& path, uint64_t size = 1, int64_t mtime_ns = 5) {
  Entry entry;
  entry.path = path;
  entry.size = size;
  entry.mtime_ns = mtime_ns;
  return entry;
}

Entry folder(const std::string& path) {
  Entry entry;
  entry.path = path;
  entry.folder = true;
  return entry;
}

Manifest settled(std::vector<Entry> entries) {
  Manifest manifest;
  manifest.entries = std::move(entries);
  const Status good = settle(&manifest);
  EXPECT_TRUE(good) << (good ? "" : good.error().text);
  return manifest;
}

TEST(DataNames, names_that_cannot_be_files_are_refused) {
  for (const std::string& bad :
       {std::string(), std::string("/etc/passwd"), std::string(".."), std::string("../x"), std::string("a/../../x"),
        std::string("a/.."), std::string("."), std::string("a/./b"), std::string("a//b"), std::string("a/"),
        std::string("/"), std::string("a\nb"), std::string("a\rb"), std::string("a\0b", 3), std::string("\x1b[31m"),
        std::string("a\x7f"), std::string(256, 'n'), "a/" + std::string(256, 'n') + "/b", std::string(4000, 'a')}) {
    const Status checked = check_path(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, Errc::kInvalid);
    EXPECT_EQ(checked.error().text.find('\n'), std::string::npos) << "a name is made visible";
  }
}

TEST(DataNames, odd_names_that_are_files_are_allowed) {
  for (const std::string& good :
       {std::string("a"), std::string("..."), std::string("..a/b.."), std::string("a b/ c"), std::string("-rf"),
        std::string("a:b"), std::string("\xc3\xa4\xff"), std::string(255, 'n'), std::string("*?[x]{y}$(z)`'\"\\")})
    EXPECT_TRUE(check_path(good)) << good;
}

TEST(DataNames, a_name_that_is_both_a_file_and_a_folder_is_refused) {
  for (const std::vector<Entry>& both : {std::vector<Entry>{file("a"), folder("a")},
                                         {file("a"), file("a/b")},
                                         {file("x/a"), file("x/a-b"), file("x/a/b/c")}}) {
    Manifest manifest;
    manifest.entries = both;
    const Status good = settle(&manifest);
    ASSERT_FALSE(good);
    EXPECT_EQ(good.error().code, Errc::kInvalid);
  }
}

TEST(DataNames, a_file_that_is_listed_twice_is_refused_and_a_folder_is_not) {
  Manifest twice;
  twice.entries = {file("a"), file("a")};
  ASSERT_FALSE(settle(&twice));
  EXPECT_EQ(settled({folder("a"), folder("a"), file("a/b")}).entries.size(), 2U);
}

TEST(DataManifest, sizes_that_no_number_holds_together_are_refused) {
  Manifest manifest;
  manifest.entries = {file("a", UINT64_MAX - 5), file("b", 10)};
  const Status good = settle(&manifest);
  ASSERT_FALSE(good);
  EXPECT_EQ(good.error().code, Errc::kInvalid);
}

TEST(DataManifest, folders_that_only_paths_name_are_added) {
  const Manifest manifest = settled({file("a/b/c"), file("a-b"), file("a/d"), file("e/f/g/h")});
  std::vector<std::string> paths;
  for (const Entry& entry : manifest.entries) paths.push_back((entry.folder ? "D " : "F ") + entry.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"D a", "F a-b", "D a/b", "F a/b/c", "F a/d", "D e", "D e/f", "D e/f/g",
                                             "F e/f/g/h"}));
}

TEST(DataManifest, the_key_of_a_set_follows_its_content) {
  const Manifest one = settled({file("a"), file("b/c", 7)});
  const std::string key = set_key("/data", one);
  EXPECT_EQ(key.size(), 64U);
  EXPECT_EQ(set_key("/data", settled({file("b/c", 7), file("a")})), key);
  EXPECT_NE(set_key("/other", one), key);
  EXPECT_NE(set_key("/data", settled({file("a"), file("b/c", 8)})), key);
  EXPECT_NE(set_key("/data", settled({file("a"), file("b/c", 7, 6)})), key);
  EXPECT_NE(set_key("/data", settled({file("a"), file("b/d", 7)})), key);
  EXPECT_NE(set_key("/data", settled({file("a"), file("b/c", 7), folder("e")})), key);
  // Where the server tells a checksum, a time alone changes nothing.
  Manifest summed = one, touched = one;
  for (Entry& entry : summed.entries) entry.identity = entry.folder ? "" : "md5:00";
  for (Entry& entry : touched.entries) entry.identity = entry.folder ? "" : "md5:00", entry.mtime_ns = 99;
  EXPECT_EQ(set_key("/data", summed), set_key("/data", touched));
  EXPECT_NE(set_key("/data", summed), key);
}

TEST(DataManifest, changes_are_what_is_new_changed_or_gone) {
  const Manifest before = settled({file("a"), file("b", 2), file("d")});
  EXPECT_TRUE(changes(before, before).empty());
  std::vector<std::string> paths;
  for (const Entry& entry : changes(before, settled({file("a"), file("b", 3), file("c"), file("e")})))
    paths.push_back(entry.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"b", "c", "d", "e"}));
}

// Random sets on random numbers of nodes.
TEST(DataShard, each_file_is_in_one_part_and_parts_are_even) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Entry> entries;
    uint64_t largest = 0;
    const size_t count = random() % 60;
    for (size_t i = 0; i < count; ++i) {
      entries.push_back(file("d" + std::to_string(random() % 5) + "/f" + std::to_string(i), random() % 1000));
      largest = std::max(largest, entries.back().size);
    }
    const Manifest whole = settled(entries);
    const unsigned nodes = 1 + random() % 9;
    std::map<std::string, int> seen;
    uint64_t most = 0, least = UINT64_MAX;
    for (unsigned node = 0; node < nodes; ++node) {
      const Manifest part = part_of(whole, node, nodes);
      for (const Entry& entry : part.entries)
        if (!entry.folder) ++seen[entry.path];
      most = std::max(most, part.bytes());
      least = std::min(least, part.bytes());
    }
    ASSERT_EQ(seen.size(), count);
    for (const auto& [path, times] : seen) ASSERT_EQ(times, 1) << path;
    ASSERT_LE(most - least, largest);
  }
}

TEST(DataManifest, is_read_as_it_was_kept) {
  Manifest manifest = settled({file("a b/c d", 123456789012, -5), folder("e"), file("\xff", 0, 0)});
  manifest.entries[1].identity = "md5:00ff";
  manifest.entries[1].executable = true;
  std::vector<std::string> sums(manifest.entries.size());
  sums[1] = "xxh3:0123";
  const auto kept = read_manifest(manifest_text(manifest, sums));
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->manifest.entries.size(), manifest.entries.size());
  for (size_t i = 0; i < manifest.entries.size(); ++i) {
    EXPECT_TRUE(same_file(kept->manifest.entries[i], manifest.entries[i])) << manifest.entries[i].path;
    EXPECT_EQ(kept->manifest.entries[i].mtime_ns, manifest.entries[i].mtime_ns);
    EXPECT_EQ(kept->sums[i], sums[i].empty() ? "-" : sums[i]);
  }
}

TEST(DataManifest, a_damaged_one_is_refused_or_names_no_file_of_others) {
  const std::string text = manifest_text(settled({file("a"), file("b/c", 7)}), {});
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    const auto kept = read_manifest(damaged);
    if (!kept) continue;
    for (const Entry& entry : kept->manifest.entries) ASSERT_TRUE(check_path(entry.path));
  }
  EXPECT_FALSE(read_manifest("F 1 2 - - ../x\n"));
  EXPECT_FALSE(read_manifest("F 1 2 - - x"));
  EXPECT_FALSE(read_manifest("D 1 0 - - x\n")) << "each node's part would have the bytes of a folder";
}

}  // namespace
}  // namespace dl::data
