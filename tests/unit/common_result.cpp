// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>
#include <stdexcept>

#include "common/base/guard.h"
#include "common/base/result.h"

namespace dl {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{Errc::kInvalid, "odd"};
  return n / 2;
}

Result<int> quarter(int n) {
  DL_TRY_ASSIGN(int h, half(n));
  DL_TRY_ASSIGN(int q, half(h));
  return q;
}

TEST(Result, carries_the_first_error_out) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error().text, "odd");
  EXPECT_EQ(std::move(quarter(3)).error().with_context("read x").text, "read x: odd");
}

TEST(Result, maps_errno_to_a_code_and_a_sentence) {
  EXPECT_EQ(errno_error("open /x", EACCES).code, Errc::kDenied);
  EXPECT_EQ(errno_error("open /x", EDQUOT).code, Errc::kNoSpace);
  EXPECT_EQ(errno_error("open /x", ENOENT).text, "open /x: No such file or directory");
}

TEST(Guard, lets_no_exception_out_and_reports_it_once) {
  int reports = 0;
  auto report = [&](const char* /*what*/) { ++reports; };
  EXPECT_EQ(guard(-1, report, [] { return 0; }), 0);
  EXPECT_EQ(guard(-1, report, []() -> int { throw std::runtime_error("x"); }), -1);
  EXPECT_EQ(guard(-1, report, []() -> int { throw 3; }), -1);
  EXPECT_EQ(reports, 2);
  EXPECT_EQ(guard(
                -1, [](const char*) { throw 1; }, []() -> int { throw std::bad_alloc(); }),
            -1);
}

}  // namespace
}  // namespace dl
