// SPDX-License-Identifier: Apache-2.0
// A job directory with logs in it, for the tests of launcher/logs.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/atomic_file.h"
#include "launcher/logs/merge.h"
#include "launcher/record/job_dir.h"

namespace dl::logs {

class JobLogs : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-logs-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
    ASSERT_TRUE(make_directories(folder()));
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + root_ + "'").c_str()), 0); }

  std::string folder() const { return record::JobDir(root_).attempt_logs(1); }
  std::string relative(int rank) const { return record::JobDir("").learner_log(1, rank).substr(1); }
  std::string path(int rank) const { return record::JobDir(root_).learner_log(1, rank); }
  void write(int rank, const std::string& text) const { ASSERT_TRUE(replace_file(path(rank), text)); }

  // Everything that a reader gives of a log, each line in its own element; the unfinished last one, too.
  std::vector<std::string> lines(int rank, uint64_t begin = 0, uint64_t end = UINT64_MAX, size_t block = 4096) const {
    LineReader reader(root_, relative(rank), begin, true);
    std::deque<std::string> lines;
    for (;;) {
      const Result<bool> done = reader.read(end, block, &lines);
      if (!done) return {done.error().text};
      if (*done) break;
    }
    std::vector<std::string> all(lines.begin(), lines.end());
    if (reader.offset() < end)
      if (std::string rest = reader.take_rest(); !rest.empty()) all.push_back(rest);
    return all;
  }

  std::string root_;
};

}  // namespace dl::logs
