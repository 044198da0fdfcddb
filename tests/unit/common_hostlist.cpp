// SPDX-License-Identifier: Apache-2.0
#include "common/base/hostlist.h"

#include <gtest/gtest.h>

#include <random>

namespace dl {
namespace {

using Names = std::vector<std::string>;

TEST(Hostlist, Expands) {
  const struct {
    const char* text;
    Names names;
  } cases[] = {
      {"", {}},
      {"n1", {"n1"}},
      {"n1,n2", {"n1", "n2"}},
      {"n[1-3,07]", {"n1", "n2", "n3", "n07"}},
      {"n[08-11]", {"n08", "n09", "n10", "n11"}},
      {"n[1-2]-ib,login", {"n1-ib", "n2-ib", "login"}},
      {"r[0-1]n[1-2]", {"r0n1", "r0n2", "r1n1", "r1n2"}},
      {"r[0-1]-n[01-02].x", {"r0-n01.x", "r0-n02.x", "r1-n01.x", "r1-n02.x"}},
      {"login-[a,b]", {"login-a", "login-b"}},
      {"n[5]", {"n5"}},
      {"gpu-node.example.org", {"gpu-node.example.org"}},
  };
  for (const auto& item : cases) {
    auto names = expand_hostlist(item.text);
    ASSERT_TRUE(names) << item.text << ": " << names.error().text;
    EXPECT_EQ(*names, item.names) << item.text;
  }
}

TEST(Hostlist, RefusesHostileInput) {
  const char* const cases[] = {"n[",
                               "n]",
                               "n[]",
                               "n[1-",
                               "n[1-]",
                               "n[-3]",
                               "n[3-1]",
                               "n[1-3",
                               "n[[1-2]]",
                               ",",
                               "n1,",
                               ",n1",
                               "n1,,n2",
                               "n 1",
                               "n;rm",
                               "n$(x)",
                               "../x/y",
                               "-w",
                               "[-x]",
                               ".n",
                               "n[1-99999999999999999999]",
                               "n[0-999999999]",
                               "n[1-1000][1-1000][1-1000]",
                               "n[a-c]",
                               "n[1,]",
                               "n[,]",
                               "n\n1"};
  for (const char* text : cases) {
    auto names = expand_hostlist(text, 10000);
    ASSERT_FALSE(names) << text;
    EXPECT_EQ(names.error().code, Errc::kInvalid) << text;
  }
  EXPECT_FALSE(expand_hostlist(std::string(300, 'n')));
  EXPECT_FALSE(expand_hostlist(std::string("n\0x", 3)));
  EXPECT_FALSE(expand_hostlist(std::string(5UL << 20, 'n')));
  EXPECT_TRUE(expand_hostlist("n[1-10]", 10));
  EXPECT_FALSE(expand_hostlist("n[1-11]", 10));
  EXPECT_FALSE(expand_hostlist("a,b,n[1-9]", 10));
}

TEST(Hostlist, CompressesToWhatExpandsBack) {
  EXPECT_EQ(compress_hostlist({}), "");
  EXPECT_EQ(compress_hostlist({"n1"}), "n1");
  EXPECT_EQ(compress_hostlist({"n1", "n2", "n4"}), "n[1-2,4]");
  EXPECT_EQ(compress_hostlist({"n08", "n09", "n10"}), "n[08-10]");
  EXPECT_EQ(compress_hostlist({"n9", "n10"}), "n[9-10]");
  EXPECT_EQ(compress_hostlist({"login", "n1", "m2", "m3"}), "login,n1,m[2-3]");
  EXPECT_EQ(compress_hostlist({"r1-n1", "r2-n1"}), "r1-n1,r2-n1");
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    Names names;
    for (unsigned i = 0; i < random() % 20; ++i) {
      std::string digits = std::to_string(random() % 30);
      if (random() % 2 == 0) digits.insert(0, "0");
      names.push_back((random() % 2 == 0 ? "n" : "rack3-") + digits + (random() % 3 == 0 ? "-ib" : ""));
    }
    const std::string text = compress_hostlist(names);
    auto back = expand_hostlist(text);
    ASSERT_TRUE(back) << text;
    EXPECT_EQ(*back, names) << text;
  }
}

TEST(Hostlist, Counts) {
  EXPECT_EQ(*expand_counts("2(x3),1", 4), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(*expand_counts("8", 1), (std::vector<int>{8}));
  for (const char* text :
       {"", "2", "2(x4)", "2(x3),1,1,1", "2(x0),1,1,1", "a", "2(x", "2(x99999999999),1", "-1(x4)", "(x4)"}) {
    EXPECT_FALSE(expand_counts(text, 3 + 2)) << text;
  }
}

}  // namespace
}  // namespace dl
