// SPDX-License-Identifier: Apache-2.0
// The values of --dl-data and --dl-results; and that no refusal repeats a credential.
#include <gtest/gtest.h>

#include "common/contract/data_request.h"

namespace dl::data {
namespace {

const std::string kSum = "sha256:" + std::string(64, 'a');

template <typename T>
std::string refusal_of(const Result<T>& got, const std::string& value) {
  EXPECT_FALSE(got) << "'" << value << "' was taken";
  if (got) return "";
  EXPECT_EQ(got.error().code, Errc::kInvalid) << value;
  EXPECT_NE(got.error().text.find("; allowed: "), std::string::npos) << got.error().text;
  for (const char c : got.error().text) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << got.error().text;
  EXPECT_LT(got.error().text.size(), 600U);
  return got.error().text;
}

TEST(Data, is_one_source_with_its_options) {
  const auto plain = parse_data("/data/digits");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->file, "");
  EXPECT_EQ(plain->source, (Source{"/data/digits", "", Cache::kNone})) << "a path is read where it lies";
  EXPECT_EQ(parse_data("/data/digits,cache=node")->source.cache, Cache::kNode);
  EXPECT_EQ(parse_data("/data/digits.tar,checksum=" + kSum)->source.cache, Cache::kNode) << "it is checked in the copy";
  const auto remote = parse_data("lab:bucket/train,to=sets/train,cache=shard");
  ASSERT_TRUE(remote) << remote.error().text;
  EXPECT_EQ(remote->source, (Source{"lab:bucket/train", "sets/train", Cache::kShard}));
  const auto url = parse_data("https://host:8443/a/b.tar?version=3,checksum=SHA256:" + std::string(64, 'A'));
  ASSERT_TRUE(url) << url.error().text;
  EXPECT_EQ(url->source, (Source{"https://host:8443/a/b.tar?version=3", "", Cache::kNode, kSum}));
  const auto named = parse_data("@imagenet-1k,to=train");
  ASSERT_TRUE(named) << named.error().text;
  EXPECT_EQ(named->source, (Source{"@imagenet-1k", "train"}));
  const auto quoted = parse_data(R"("a, \"b\" \\c",cache=none)");
  ASSERT_TRUE(quoted) << quoted.error().text;
  EXPECT_EQ(quoted->source, (Source{R"(a, "b" \c)", "", Cache::kNone}));
  EXPECT_EQ(parse_data("./a:b")->source.from, "./a:b");
  EXPECT_EQ(parse_data("~/digits")->source.from, "~/digits");
  EXPECT_EQ(parse_data("my remote@x:p")->source.from, "my remote@x:p");
}

TEST(Data, is_a_file_of_several_sources_where_it_ends_in_toml) {
  EXPECT_EQ(parse_data("sets.toml")->file, "sets.toml");
  EXPECT_EQ(parse_data("/home/ada/sets.toml")->file, "/home/ada/sets.toml");
  EXPECT_EQ(parse_data("lab:sets.toml")->file, "") << "a file in an object store is data";
  EXPECT_EQ(parse_data("sets.toml,to=a")->file, "") << "with options it is a source";
}

TEST(Data, kinds_of_places_are_told_apart) {
  EXPECT_EQ(place_of("/a:b"), Place::kPath);
  EXPECT_EQ(place_of("a/b:c"), Place::kPath);
  EXPECT_EQ(place_of("a:b/c"), Place::kRemote);
  EXPECT_EQ(place_of("a:"), Place::kRemote);
  EXPECT_EQ(place_of("https://a/b"), Place::kUrl);
  EXPECT_EQ(place_of("s3://a/b"), Place::kUrl);
  EXPECT_EQ(place_of("@a"), Place::kCatalogue);
  EXPECT_EQ(place_of(""), Place::kPath);
}

TEST(Data, what_names_no_source_is_refused) {
  const std::string huge(5000, 'x');
  for (const std::string& bad : {std::string(),
                                 std::string(","),
                                 std::string("\""),
                                 std::string("\"a\"b"),
                                 std::string("/a\nb"),
                                 std::string("/a\x01"),
                                 std::string("$HOME/data"),
                                 std::string("~ada/data"),
                                 std::string("@"),
                                 std::string("@../x"),
                                 std::string("http://host/a"),
                                 std::string("s3://bucket/a"),
                                 std::string("https:///a"),
                                 std::string("https://host/a"),
                                 std::string("https://host/a b,checksum=" + kSum),
                                 huge,
                                 "/" + huge,
                                 std::string("-x:y"),
                                 std::string("a*b:c"),
                                 std::string("/a,to="),
                                 std::string("/a,to=/b"),
                                 std::string("/a,to=../b"),
                                 std::string("/a,to=b/./c"),
                                 std::string("/a,to=b//c"),
                                 std::string("/a,to=b/"),
                                 std::string("/a,cache=all"),
                                 std::string("/a,cache"),
                                 std::string("/a,cache=node,cache=node"),
                                 std::string("/a,checksum=md5:1"),
                                 std::string("/a,checksum=sha256:1"),
                                 std::string("/a,keep=1"),
                                 std::string("@set,cache=none"),
                                 "@set,checksum=" + kSum,
                                 std::string("to=train"),
                                 std::string("lab:x,cache=none"),
                                 "/a,cache=shard,checksum=" + kSum})
    refusal_of(parse_data(bad), bad);
}

TEST(Data, a_credential_is_refused_and_not_repeated) {
  for (const std::string& bad :
       {std::string("https://ada:hunter2@host/a"), std::string("https://hunter2@host/a,checksum=" + kSum),
        std::string("\"https://ada:hunter2@host/a"), std::string("https://h/a?X-Amz-Signature=hunter2"),
        std::string("https://h/a?v=1&sig=hunter2"), std::string("https://h/a?access_token=hunter2"),
        std::string("http://ada:hunter2@host/a"), std::string("s3://hunter2@bucket/a"),
        std::string("ftp://ada:hunter2@host"), std::string(":s3,access_key_id=hunter2:bucket"),
        std::string(":http:hunter2"), std::string("lab,secret_access_key=hunter2:bucket"),
        std::string("\"lab,secret_access_key=hunter2:bucket\""), std::string("\":s3,key=hunter2:bucket\""),
        std::string("\"lab,secret_access_key=hunter2:bucket"), std::string("lab,key=hunter2,key=hunter2:b")}) {
    EXPECT_EQ(refusal_of(parse_data(bad), bad).find("hunter2"), std::string::npos) << bad;
    EXPECT_EQ(refusal_of(parse_results(bad), bad).find("hunter2"), std::string::npos) << bad;
  }
  EXPECT_EQ(shown_place("https://ada:hunter2@host/a?sig=hunter2"), "https://host/a");
}

TEST(Data, sources_have_folders_of_their_own) {
  std::vector<Source> good = {{"/a", "train"}, {"/b", "test"}, {"/c", "trainer"}};
  EXPECT_TRUE(check_sources(&good));
  std::vector<Source> nested = {{"/a", "sets"}, {"/b", "sets/test"}};
  std::vector<Source> same = {{"/a", "sets"}, {"/b", "sets"}};
  std::vector<Source> whole = {{"/a", ""}, {"/b", "sets"}};
  for (auto* bad : {&nested, &same, &whole}) {
    const Status got = check_sources(bad);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Errc::kConflict);
  }
  std::vector<Source> none, many(kMaxSources + 1);
  EXPECT_FALSE(check_sources(&none));
  EXPECT_FALSE(check_sources(&many));
}

TEST(Results, are_a_place_with_or_without_the_checkpoint) {
  const auto plain = parse_results("/home/ada/results/%x-%j");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->to, "/home/ada/results/%x-%j");
  EXPECT_FALSE(plain->checkpoint);
  const auto both = parse_results("lab:bucket/results,checkpoint");
  ASSERT_TRUE(both) << both.error().text;
  EXPECT_EQ(both->to, "lab:bucket/results");
  EXPECT_TRUE(both->checkpoint);
  for (const char* bad : {"", ",checkpoint", "/a,checkpoint,checkpoint", "/a,keep=1", "https://host/a", "@a", "/a%q",
                          "/a$HOME", "~ada/x", "/a\nb", "\"/a"})
    refusal_of(parse_results(bad), bad);
}

}  // namespace
}  // namespace dl::data
