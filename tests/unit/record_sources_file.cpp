// SPDX-License-Identifier: Apache-2.0
// The file of sources: it is read as it was written, and a damaged or foreign one is refused.
#include <gtest/gtest.h>

#include "launcher/record/sources_file.h"

namespace dl::record {
namespace {

using data::Cache;
using data::Source;

const std::string kDigest = "sha256:" + std::string(64, '0');

TEST(SourcesFile, is_read_as_it_was_written) {
  const std::vector<Source> sources = {{"/data/a \"b\" \xc3\xa4", "train", Cache::kNone},
                                       {"lab:bucket/x", "sets/x", Cache::kShard},
                                       {"https://host/x.tar", "tar", Cache::kNode, kDigest}};
  const auto read = parse_sources(format_sources(sources), "data.json");
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, sources);
}

TEST(SourcesFile, members_may_be_missing_or_unknown) {
  const auto read = parse_sources(R"({"version":1,"new":2,"sources":[{"from":"/a","new":3}]})", "f");
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, (std::vector<Source>{{"/a"}}));
}

TEST(SourcesFile, what_is_no_list_of_sources_is_refused) {
  for (const char* bad : {"", "x", "[]", "{}", R"({"version":1,"sources":[]})", R"({"version":1,"sources":[{}]})",
                          R"({"version":1,"sources":[{"from":3}]})", R"({"version":2,"sources":[{"from":"/a"}]})",
                          R"({"version":1,"sources":[{"from":"/a","cache":"x"}]})",
                          R"({"version":1,"sources":[{"from":"/a","to":".."}]})",
                          R"({"version":1,"sources":[{"from":"/a"},{"from":"/b"}]})"}) {
    const auto read = parse_sources(bad, "data.json");
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().text.rfind("data.json: ", 0), 0U) << read.error().text;
  }
}

}  // namespace
}  // namespace dl::record
