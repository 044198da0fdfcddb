// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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

// Long enough to lie on the heap, so that AddressSanitizer sees whether each part is destroyed once.
const std::string kLongValue(60, 'v'), kLongError(60, 'e');

Result<std::string> long_text(bool good) {
  if (good) return kLongValue;
  return Error{Errc::kIo, kLongError, EIO};
}

TEST(Result, keeps_its_part_when_it_is_copied_moved_and_assigned) {
  std::vector<Result<std::string>> all;
  for (int i = 0; i < 9; ++i) all.push_back(long_text(i % 2 == 0));  // moves those that are there when it grows
  const std::vector<Result<std::string>> copy = all;
  all[0] = copy[1];
  all[1] = copy[0];
  all[2] = copy[4];
  all[3] = std::move(all[5]);
  EXPECT_EQ(all[0].error().text, kLongError);
  EXPECT_EQ(all[0].error().sys_errno, EIO);
  EXPECT_EQ(*all[1], kLongValue);
  EXPECT_EQ(*all[2], kLongValue);
  EXPECT_EQ(all[3].error().text, kLongError);
  for (size_t i = 0; i < copy.size(); ++i) EXPECT_EQ(copy[i].has_value(), i % 2 == 0);
}

TEST(Result, holds_what_can_only_be_moved) {
  Result<std::unique_ptr<int>> owned = std::make_unique<int>(3);
  Result<std::unique_ptr<int>> taken = std::move(owned);
  EXPECT_EQ(**taken, 3);
  taken = Error{Errc::kBusy, "held"};
  EXPECT_EQ(taken.error().text, "held");
}

TEST(Result, throws_when_asked_for_what_it_does_not_have) {
  EXPECT_THROW(half(1).value(), std::bad_variant_access);
  EXPECT_THROW(half(2).error(), std::bad_variant_access);
}

TEST(Status, has_an_error_only_after_a_failure) {
  Status status;
  EXPECT_TRUE(status);
  EXPECT_EQ(status.error().text, "");
  status = Error{Errc::kIo, kLongError};
  const Status copy = status;
  const Status moved = std::move(status);
  EXPECT_FALSE(copy);
  EXPECT_EQ(moved.error().text, kLongError);
  status = Status();
  EXPECT_TRUE(status);
  EXPECT_EQ(status.error().text, "");
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
