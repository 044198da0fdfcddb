// SPDX-License-Identifier: Apache-2.0
// A job directory has one dlrun at a time.
#include "launcher/record/job_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/atomic_file.h"

namespace dl::record {
namespace {

using std::chrono::milliseconds;

DirHolder holder(const char* job, int slurm_restarts) {
  return {job, slurm_restarts, "n1", 77};
}

class JobLockTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-lock-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + root_ + "'").c_str()), 0); }
  Result<JobLock> take(const char* job, int slurm_restarts) {
    return JobLock::take(root_ + "/job", holder(job, slurm_restarts), milliseconds(20));
  }
  std::string root_;
};

TEST_F(JobLockTest, ASecondIsRefusedAndToldWhoHoldsIt) {
  {
    const auto first = take("12", 0);
    ASSERT_TRUE(first && first->held());
    for (const auto& [job, restarts] : {std::pair{"13", 0}, {"12", 0}, {"local-1", -1}}) {
      const auto second = take(job, restarts);
      ASSERT_FALSE(second) << job;
      EXPECT_EQ(second.error().code, Errc::kBusy);
      EXPECT_EQ(second.error().text,
                root_ +
                    "/job is in use by dlrun of job 12 on n1 (process 77): wait until that one has ended, or give this "
                    "one a directory of its own (--job-dir)");
    }
  }
  const auto after = take("13", 0);
  EXPECT_TRUE(after && after->held());
}

TEST_F(JobLockTest, ALaterStartOfTheSameJobGoesOnThoughADeadNodeStillHoldsIt) {
  const auto first = take("12", 0);
  const auto next = take("12", 1);
  ASSERT_TRUE(next);
  EXPECT_FALSE(next->held());
  EXPECT_FALSE(is_superseded(holder("12", 1), holder("12", 1)));
  EXPECT_FALSE(is_superseded(holder("12", 2), holder("12", 1)));
  EXPECT_FALSE(is_superseded(holder("12", -1), holder("12", -1)));
}

TEST_F(JobLockTest, WhereNothingCanBeLockedItGoesOn) {
  ASSERT_TRUE(replace_file(root_ + "/job", "a file"));
  const auto lock = take("12", 0);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(lock->held());
}

TEST_F(JobLockTest, AHolderIsReadBackAndNothingElseIs) {
  const auto read = parse_holder(format_holder(holder("12_3", 4)));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->job_id, "12_3");
  EXPECT_EQ(read->slurm_restarts, 4);
  for (const char* text : {"", "[]", "{}", R"({"job_id":1,"node":"n","pid":2,"slurm_restarts":0})"})
    EXPECT_FALSE(parse_holder(text)) << text;
  // What an unreadable holder is called.
  const auto first = take("12", 0);
  ASSERT_EQ(::truncate((root_ + "/job/dlrun.lock").c_str(), 0), 0);
  const auto second = take("13", 0);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().text.find("in use by another dlrun"), std::string::npos);
}

}  // namespace
}  // namespace dl::record
