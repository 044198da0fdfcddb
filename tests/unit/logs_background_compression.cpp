// SPDX-License-Identifier: Apache-2.0
// Logs of attempts that are over are compressed on a thread of the lowest priority. When it has to stop, no log is lost
// or half compressed.
#include "launcher/logs/background_compression.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "launcher/logs/frames.h"
#include "tests/unit/logs_support.h"

namespace dl::logs {
namespace {

constexpr int kLowest = 19;

class BackgroundCompressionTest : public JobLogs {
 protected:
  std::string logs() const { return root_ + "/logs"; }
  std::string log_of(int attempt, int rank = 0) const { return record::JobDir(root_).learner_log(attempt, rank); }
  std::string packed(int attempt, int rank = 0) const { return log_of(attempt, rank) + kPackedSuffix; }
  std::string temporary(int attempt) const { return packed(attempt) + ".tmp"; }
  static bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
  void write_log(int attempt, int rank = 0) const {
    ASSERT_TRUE(make_directories(record::JobDir(root_).attempt_logs(attempt)));
    ASSERT_TRUE(replace_file(log_of(attempt, rank), std::string(100'000, 'x')));
  }
  // A log whose compression takes many seconds. It has a hole, so it needs no space.
  void write_huge_log(int attempt) const {
    write_log(attempt);
    ASSERT_EQ(::truncate(log_of(attempt).c_str(), kHuge), 0);
  }
  bool is_as_it_was(int attempt) const {
    struct stat status = {};
    return ::stat(log_of(attempt).c_str(), &status) == 0 && status.st_size == kHuge && !exists(packed(attempt)) &&
           !exists(temporary(attempt));
  }
  static bool wait_for(const std::function<bool()>& is_so) {
    const auto begin = std::chrono::steady_clock::now();
    while (!is_so()) {
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(60)) return false;
      ::usleep(1000);
    }
    return true;
  }
  // The nice values of the threads of this process, sorted.
  static std::vector<int> nice_values() {
    std::vector<int> values;
    DIR* tasks = ::opendir("/proc/self/task");
    while (const struct dirent* item = ::readdir(tasks))  // NOLINT(concurrency-mt-unsafe): own DIR
      if (const int thread = std::atoi(item->d_name); thread > 0)
        values.push_back(::getpriority(PRIO_PROCESS, static_cast<id_t>(thread)));
    ::closedir(tasks);
    std::sort(values.begin(), values.end());
    return values;
  }

  static constexpr off_t kHuge = off_t{64} << 30;
};

TEST_F(BackgroundCompressionTest, LogsUpToTheLastAttemptAreCompressedAndWhatCannotBeStays) {
  for (int attempt = 1; attempt <= 3; ++attempt)
    for (int rank = 0; rank < 2; ++rank) write_log(attempt, rank);
  ASSERT_TRUE(make_directories(temporary(1)));  // so that this one fails
  BackgroundCompression compression;
  compression.stop();  // before anything has begun
  compression.begin(logs(), 2);
  EXPECT_TRUE(wait_for([&] { return !exists(log_of(2, 1)); }));
  compression.stop();
  EXPECT_TRUE(exists(log_of(1)));
  EXPECT_FALSE(exists(packed(1)));
  for (const std::string& done : {packed(1, 1), packed(2), packed(2, 1)}) EXPECT_TRUE(exists(done)) << done;
  EXPECT_FALSE(exists(log_of(1, 1)));
  EXPECT_FALSE(exists(log_of(2)));
  for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(exists(log_of(3, rank)) && !exists(packed(3, rank)));
}

TEST_F(BackgroundCompressionTest, ItsThreadAloneHasTheLowestPriority) {
  write_huge_log(1);
  std::vector<int> expected = nice_values();
  expected.push_back(kLowest);
  BackgroundCompression compression;
  compression.begin(logs(), 1);
  ASSERT_TRUE(wait_for([&] { return exists(temporary(1)); }));
  EXPECT_EQ(nice_values(), expected);
  compression.stop();
  expected.pop_back();
  EXPECT_EQ(nice_values(), expected);
}

TEST_F(BackgroundCompressionTest, AnInterruptedLogStaysAsItWas) {
  write_huge_log(1);
  BackgroundCompression stopped;
  stopped.begin(logs(), 1);
  ASSERT_TRUE(wait_for([&] { return exists(temporary(1)); }));
  stopped.stop();
  EXPECT_TRUE(is_as_it_was(1));
  {
    BackgroundCompression destroyed;
    destroyed.begin(logs(), 1);
    ASSERT_TRUE(wait_for([&] { return exists(temporary(1)); }));
  }
  EXPECT_TRUE(is_as_it_was(1));
}

TEST_F(BackgroundCompressionTest, ASecondCallInterruptsTheFirstAndCompressesWhatThatLeft) {
  write_huge_log(1);
  BackgroundCompression compression;
  compression.begin(logs(), 1);
  ASSERT_TRUE(wait_for([&] { return exists(temporary(1)); }));
  write_log(2);
  compression.begin(logs(), 2);
  ASSERT_TRUE(wait_for([&] { return exists(temporary(1)); }));
  compression.stop();
  EXPECT_TRUE(is_as_it_was(1));
  EXPECT_TRUE(exists(log_of(2)));
  // Now the huge one is gone.
  write_log(1);
  compression.begin(logs(), 2);
  EXPECT_TRUE(wait_for([&] { return !exists(log_of(2)); }));
  EXPECT_TRUE(exists(packed(1)) && exists(packed(2)));
}

}  // namespace
}  // namespace dl::logs
