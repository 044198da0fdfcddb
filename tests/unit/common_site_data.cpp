// SPDX-License-Identifier: Apache-2.0
// [data] of dl.toml, the catalogue of data sets, and the user's own file of sources.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/site/site_config.h"
#include "common/site/site_data.h"

namespace dl::data {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'b');

class DataSets : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ + ("/" + name)) << text; }
  std::vector<std::string> folders() const { return {folder_, std::string(folder_) + "/none"}; }
  char folder_[32] = "/tmp/dl-datasets-XXXXXX";
};

TEST(SourceFile, names_several_sources) {
  const auto sources = parse_source_file(R"([[source]]
from = "lab:bucket/train"
to = "train"
cache = "shard"
[[source]]
from = "/data/test"
to = "test")",
                                         "sets.toml");
  ASSERT_TRUE(sources) << sources.error().text;
  EXPECT_EQ(*sources,
            (std::vector<Source>{{"lab:bucket/train", "train", Cache::kShard}, {"/data/test", "test", Cache::kNone}}));
}

TEST(SourceFile, mistakes_are_refused_with_their_line) {
  const struct {
    const char* text;
    const char* begin;
  } rows[] = {
      {"", "sets.toml: 0 sources"},
      {"[source]\nfrom = \"/a\"", "sets.toml:1: source: "},
      {"source = 3", "sets.toml:1: source: "},
      {"[[source]]\nfrom = 3", "sets.toml:2: source.from: "},
      {"[[source]]\nfrom = \"/a\"\nuser = \"x\"", "sets.toml:3: source.user: unknown key; allowed: from"},
      {"[[source]]\nfrom = \"s3://a\"", "sets.toml:1: source: 's3://a' is an address"},
      {"[[source]]\nfrom = \"@a\"\ncache = \"node\"", "sets.toml:1: source: @NAME is cached"},
      {"[[source]]\nfrom = \"/a\"\n[[source]]\nfrom = \"/b\"", "sets.toml: '/a' and '/b' go to the same folder"},
      {"[[source]]\nfrom = \"https://ada:hunter2@h/x\"", "sets.toml:1: source: the address carries a credential"},
  };
  for (const auto& row : rows) {
    const auto got = parse_source_file(row.text, "sets.toml");
    ASSERT_FALSE(got) << row.text;
    EXPECT_EQ(got.error().text.rfind(row.begin, 0), 0U) << got.error().text;
    EXPECT_EQ(got.error().text.find("hunter2"), std::string::npos);
  }
}

TEST_F(DataSets, replace_names_by_where_the_data_lie) {
  write("imagenet.toml", "source = \"lab:imagenet\"\ntenants = [\"vision\", \"nlp\"]\nlicence = \"for research\"\n");
  write("digits.toml", "path = \"/data/digits\"\nsource = \"lab:digits\"\n");
  write("tar.toml", "source = \"https://host/x.tar\"\nchecksum = \"" + kDigest + "\"\n");
  write(".hidden.toml", "x");
  std::vector<Source> sources = {{"@imagenet", "a"}, {"@digits", "b"}, {"@tar", "c"}, {"/plain", "d", Cache::kNone}};
  ASSERT_TRUE(resolve_names(folders(), "vision", &sources));
  EXPECT_EQ(sources, (std::vector<Source>{{"lab:imagenet", "a"},
                                          {"/data/digits", "b", Cache::kNone},
                                          {"https://host/x.tar", "c", Cache::kNode, kDigest},
                                          {"/plain", "d", Cache::kNone}}));
  std::vector<Source> other = {{"@imagenet"}};
  const Status denied = resolve_names(folders(), "robots", &other);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Errc::kDenied);
  EXPECT_EQ(denied.error().text, "'@imagenet' is not for tenant 'robots'; allowed: a job of the account vision, nlp");
  std::vector<Source> none = {{"@imagnet"}};
  const Status unknown = resolve_names(folders(), "", &none);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().text, "'@imagnet' is not in the site's catalogue; allowed: @digits, @imagenet, @tar");
}

TEST_F(DataSets, with_a_fault_are_missing_and_say_why) {
  write("good.toml", "path = \"/a\"\n");
  write("bad.toml", "path = \"a\"\n");
  write("empty.toml", "summary = \"words\"\n");
  std::vector<std::string> faults;
  const auto sets = load_data_sets(folders(), &faults);
  ASSERT_EQ(sets.size(), 1U);
  EXPECT_EQ(sets[0].name, "good");
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_NE(faults[0].find("/bad.toml:1: path: 'a' is not accepted"), std::string::npos) << faults[0];
  EXPECT_NE(faults[1].find("/empty.toml: says nowhere"), std::string::npos) << faults[1];
  std::vector<Source> asked = {{"@bad"}};
  const Status fault = resolve_names(folders(), "", &asked);
  ASSERT_FALSE(fault);
  EXPECT_EQ(fault.error().text, faults[0]);
}

TEST(SiteData, is_read_from_the_sites_configuration) {
  const auto site = parse_site_config(
      "[data]\ncache = \"/local/c\"\nlimit = \"2GiB\"\nshared = \"/scratch/c\"\ncatalogue = [\"/etc/sets\"]\n",
      "/x/dl.toml");
  ASSERT_TRUE(site) << site.error().text;
  EXPECT_EQ(site->data.cache, "/local/c");
  EXPECT_EQ(site->data.limit, uint64_t{2} << 30);
  EXPECT_EQ(site->data.shared, "/scratch/c");
  EXPECT_EQ(catalogue_folders(site->data, "/x/dl.toml"), (std::vector<std::string>{"/etc/sets"}));
  EXPECT_EQ(catalogue_folders(SiteData(), "/x/dl.toml"), (std::vector<std::string>{"/x/datasets.d"}));
  for (const char* bad : {"[data]\ncache = \"c\"", "[data]\nlimit = -1", "[data]\nx = 1", "data = 1",
                          "[data]\ncatalogue = []", "[data]\nshared = 1"}) {
    const auto got = parse_site_config(bad, "dl.toml");
    ASSERT_FALSE(got) << bad;
    EXPECT_EQ(got.error().text.rfind("dl.toml:", 0), 0U) << got.error().text;
  }
}

}  // namespace
}  // namespace dl::data
