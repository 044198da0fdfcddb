// SPDX-License-Identifier: Apache-2.0
// What spank_dl.so adds to a task's environment is known to what the task starts, and taken back there.
#include <gtest/gtest.h>

#include "common/contract/given_variables.h"

namespace dl {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(GivenVariables, WhatWasAddedIsTakenBackUnlessItHasChanged) {
  const Variables before = {{"MASTER_PORT", "1"}, {"RANK", "9"}};
  Variables after = {{"MASTER_PORT", "1"},
                     {"RANK", "0"},
                     {"MASTER_ADDR", "n1"},
                     {"OMP_NUM_THREADS", "4"},
                     {"LONG", std::string(500, 'x')},
                     {"EMPTY", ""},
                     {"EQUALS", "a=b"},
                     {"SEPARATED",
                      "a\x1f"
                      "b"}};
  after["DL_GIVEN"] = format_given(before, after);
  after["OMP_NUM_THREADS"] = "8";
  take_back_given(&after);
  const Variables expected = {{"MASTER_PORT", "1"},
                              {"RANK", "0"},
                              {"OMP_NUM_THREADS", "8"},
                              {"LONG", std::string(500, 'x')},
                              {"SEPARATED",
                               "a\x1f"
                               "b"}};
  EXPECT_EQ(after, expected);
}

TEST(GivenVariables, AnythingIsReadWithoutHarm) {
  for (const char* given : {"", "=", "\x1f\x1f", "=x\x1fNAME", "DL_GIVEN=x",
                            "A=1\x1f"
                            "A=1"}) {
    Variables environment = {{"A", "1"}, {"DL_GIVEN", given}};
    take_back_given(&environment);
    EXPECT_EQ(environment.count("DL_GIVEN"), 0U);
  }
  Variables none = {{"A", "1"}};
  take_back_given(&none);
  EXPECT_EQ(none.size(), 1U);
}

}  // namespace
}  // namespace dl
