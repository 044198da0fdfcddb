// SPDX-License-Identifier: Apache-2.0
// JSON is read and written as its header says, whoever wrote the text: what is of another type is refused, and no text
// takes longer than its length warrants.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>

#include "common/json/json_members.h"

namespace dl {
namespace {

std::string again(const std::string& text) {
  return Json::parse(text).dump();
}

TEST(Json, ListsInBracesAreObjectsOrArrays) {
  EXPECT_EQ((Json{{"id", 12}, {"nodes", {"n1", "n2"}}}).dump(), R"({"id":12,"nodes":["n1","n2"]})");
  EXPECT_EQ((Json{{"a", "b"}}).dump(), R"({"a":"b"})");
  EXPECT_EQ((Json{{"a", {{"b", nullptr}}}}).dump(), R"({"a":{"b":null}})");
  EXPECT_EQ((Json{{"a", Json{1, 2}}, {"a", true}}).dump(), R"({"a":true})");
  EXPECT_EQ((Json{{"a", 1}, {2, "b"}}).dump(), R"([["a",1],[2,"b"]])");
  EXPECT_EQ(Json(std::vector<std::string>{"a", "b"}).dump(), R"(["a","b"])");
  EXPECT_EQ(Json(std::map<std::string, int>{{"a", 1}}).dump(), R"({"a":1})");
}

TEST(Json, WhatIsReadIsWrittenAgain) {
  for (const char* text : {"null", "true", "-1", "18446744073709551615", "-9223372036854775808", "1.5", "\"\"", "[]",
                           "{}", R"([1,[],{"b":2,"a":[null,false]}])", R"("\u0001\"\\ä")"})
    EXPECT_EQ(again(text), text);
  EXPECT_EQ(Json::parse(R"({"b":[1],"a":{}})").dump(1), "{\n \"b\": [\n  1\n ],\n \"a\": {}\n}");
  EXPECT_EQ(Json::parse(R"({"b":{"d":1,"c":2},"a":3})").dump_sorted(), R"({"a":3,"b":{"c":2,"d":1}})");
  EXPECT_EQ(Json("ä\xff").dump(), "\"ä\xEF\xBF\xBD\"");
  EXPECT_EQ(Json("ä").dump_ascii(), R"("\u00e4")");
  EXPECT_EQ(Json{std::numeric_limits<double>::infinity()}.dump(), "[null]");
}

TEST(Json, WhatIsNoJsonIsBroken) {
  for (const char* text : {"", "{", "[1,]", "1 2", "{\"a\"}", "nul", "1e400", "\"\xff\"", "'a'"}) {
    const Json json = Json::parse(text);
    EXPECT_TRUE(json.is_broken()) << text;
    EXPECT_FALSE(json.is_object() || json.is_array() || json.is_null() || json.is_string() || json.is_number()) << text;
    EXPECT_EQ(json.find("a"), nullptr);
  }
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_FALSE(Json::parse(nested(200)).is_broken());
  EXPECT_TRUE(Json::parse(nested(201)).is_broken());
  EXPECT_TRUE(Json::parse(std::string(1000000, '[')).is_broken());
}

TEST(Json, OfMembersWithOneNameTheLastCounts) {
  EXPECT_EQ(again(R"({"a":1,"b":2,"a":3,"c":4,"b":5,"a":6})"), R"({"a":6,"b":5,"c":4})");
  EXPECT_EQ(again(R"({"a":1,"a":[{"x":1,"x":2}]})"), R"({"a":[{"x":2}]})");
}

TEST(Json, StrictlyNoNameMayRepeatAndTheDepthIsLimited) {
  const auto broken = [](const char* text, size_t depth) { return Json::parse_strictly(text, depth).is_broken(); };
  EXPECT_EQ(Json::parse_strictly(R"({"b":[{"a":1},{"a":2}],"a":{"b":3}})", 3).dump(),
            R"({"b":[{"a":1},{"a":2}],"a":{"b":3}})");
  EXPECT_TRUE(broken(R"({"a":1,"b":2,"a":1})", 3));
  EXPECT_TRUE(broken(R"([{"b":{"a":1,"a":1}}])", 3));
  EXPECT_TRUE(broken(R"({"a":1,"\u0061":1})", 3));
  EXPECT_FALSE(broken(R"({"a":[[]]})", 3));
  EXPECT_TRUE(broken(R"({"a":[[]]})", 2));
  EXPECT_TRUE(broken(R"({"a":[[)", 2));
  EXPECT_TRUE(broken(R"({"a":1)", 3));
  EXPECT_FALSE(broken("7", 0));
}

TEST(Json, ManyMembersWithOneNameAreReadQuickly) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) text += "\"a\":" + std::to_string(i) + ",";
  for (int i = 0; i < 100000; ++i) text += "\"b" + std::to_string(i) + "\":0,";
  text.back() = '}';
  const auto begin = std::chrono::steady_clock::now();
  const Json json = Json::parse(text);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));  // once more than a minute
  EXPECT_EQ(json.size(), 100001U);
  EXPECT_EQ(json.at("a").get<int>(), 99999);
}

TEST(Json, OtherTypesAreRefused) {
  const Json json = Json::parse(R"({"text":"x","number":1.5,"large":1e300,"list":[1,"x"],"none":null})");
  EXPECT_THROW(json.at("text").get<int>(), JsonError);
  EXPECT_THROW(json.at("text").get<bool>(), JsonError);
  EXPECT_THROW(json.at("number").get<bool>(), JsonError);
  EXPECT_THROW(json.at("number").get<std::string>(), JsonError);
  EXPECT_THROW(json.at("large").get<int64_t>(), JsonError);
  EXPECT_THROW(json.at("list").get<std::vector<int>>(), JsonError);
  EXPECT_THROW(json.at("number").get<std::vector<int>>(), JsonError);
  EXPECT_THROW((json.at("list").get<std::map<std::string, int>>()), JsonError);
  EXPECT_THROW(json.at("missing"), JsonError);
  EXPECT_THROW(json.at("list").at("x"), JsonError);
  EXPECT_THROW(json.value("none", 3), JsonError);
  EXPECT_THROW(json.at("list")[0].text(), JsonError);
  EXPECT_EQ(json.value("missing", 3), 3);
  EXPECT_EQ(json.at("number").get<double>(), 1.5);
  EXPECT_TRUE(Json::parse("1").is_number_unsigned());
  EXPECT_FALSE(Json::parse("-1").is_number_unsigned());
  EXPECT_FALSE(Json::parse("1.0").is_number_integer());
  EXPECT_FALSE(Json::parse("-0").is_number_integer());
  EXPECT_EQ(Json::parse("-0").get<int>(), 0);
  EXPECT_EQ(Json::parse("18446744073709551615").get<uint64_t>(), UINT64_MAX);
  Json list = Json::array();
  EXPECT_THROW(list["a"], JsonError);
  EXPECT_THROW(list.push_back("a", 1), JsonError);
  EXPECT_THROW(Json::object().push_back(1), JsonError);
}

TEST(Json, OnlyArraysHaveItemsAndOnlyObjectsMembers) {
  for (const char* text : {"{\"a\":1}", "7", "\"x\"", "null"}) {
    const Json json = Json::parse(text);
    EXPECT_EQ(json.begin(), json.end()) << text;
  }
  EXPECT_TRUE(Json::parse("[1]").members().empty());
  EXPECT_EQ(Json::parse("[1,2]").size(), 2U);
  EXPECT_EQ(Json::parse("{\"a\":1}").size(), 1U);
  EXPECT_TRUE(Json("x").empty());
}

struct Part {
  int number = 1;
  std::vector<std::string> words;
};
void members(Part& m, JsonMembers& each) {
  each("number", m.number)("words", m.words);
}
struct Whole {
  std::string name = "none";
  bool flag = false;
  std::map<std::string, Part> parts;
};
void members(Whole& m, JsonMembers& each) {
  each("name", m.name)("flag", m.flag)("parts", m.parts);
}

TEST(Json, StructuresAreObjects) {
  Whole whole;
  whole.parts["p"].words = {"a", "b"};
  const std::string text = json_of(whole).dump();
  EXPECT_EQ(text, R"({"name":"none","flag":false,"parts":{"p":{"number":1,"words":["a","b"]}}})");
  Whole read;
  read_json(Json::parse(text), &read);
  EXPECT_EQ(json_of(read).dump(), text);
  read_json(Json::parse(R"({"flag":true,"parts":{"q":{"other":1}}})"), &read);
  EXPECT_EQ(json_of(read).dump(), R"({"name":"none","flag":true,"parts":{"q":{"number":1,"words":[]}}})");
  for (const char* bad : {"[]", "7", R"({"name":7})", R"({"flag":1})", R"({"parts":[]})", R"({"parts":{"p":[]}})",
                          R"({"parts":{"p":{"words":"a"}}})", R"({"name":null})"})
    EXPECT_THROW(read_json(Json::parse(bad), &read), JsonError) << bad;
}

}  // namespace
}  // namespace dl
