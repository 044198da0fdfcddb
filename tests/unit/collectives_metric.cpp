// SPDX-License-Identifier: Apache-2.0
// dl_metric: the records, which dl-metrics reads, from threads, child processes and programs that close descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "launcher/collectives/include/dllearner.h"
#include "launcher/collectives/metric_file.h"
#include "launcher/metrics/emetrics.h"

namespace dl::learner {
namespace {

// Whoever reads the records has to know at which size no more come, and which train steps there may be.
static_assert(kMostMetricFile == metrics::kMostReported && kMostMetricStep == metrics::kMostStep);

class MetricTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-metric-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    file_ = folder_ + "/learner-0.jsonl";
    ::setenv("DL_METRICS_FILE", file_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override {
    ::unsetenv("DL_METRICS_FILE");  // NOLINT(concurrency-mt-unsafe)
    ASSERT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0);
  }
  // Of another test's file this process may still hold a descriptor: each test's own process has none.
  template <typename Body>
  int in_child(Body body) const {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(body());
    int status = -1;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
  }
  std::string content() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  // What dl-metrics finds: "train/loss=0.5@3"; a line that it does not know is "none".
  std::vector<std::string> found() const {
    std::vector<std::string> all;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) {
      if (line.empty()) continue;
      std::vector<metrics::Found> values;
      if (!metrics::read_emetrics(line, &values)) all.emplace_back("none");
      for (const metrics::Found& one : values) {
        char value[64];
        std::snprintf(value, sizeof value, "%.17g", one.value);
        all.push_back(one.group + "/" + one.name + "=" + value + "@" + std::to_string(one.step));
      }
    }
    return all;
  }
  std::string folder_, file_;
};

int report(const char* name, double value, int64_t step, dl_metric_group group = DL_METRIC_TRAIN) {
  return dl_metric({{name, value}}, step, group);
}

TEST_F(MetricTest, WhatIsReportedIsWhatIsRead) {
  ASSERT_EQ(in_child([] {
              const dl_metric_value values[] = {{"loss", 0.1}, {"acc@1 \"\\\n\x7f\xc3\xa9", -1e-300}};
              int bad = dl_metric(values, 2, 120, DL_METRIC_VALIDATE);
              bad += report("loss", std::nan(""), DL_METRIC_NO_STEP);
              bad += report("loss", -INFINITY, 0, DL_METRIC_TEST);
              return bad;
            }),
            0);
  EXPECT_EQ(found(), (std::vector<std::string>{"validate/loss=0.10000000000000001@120",
                                               "validate/acc@1 \"\\\n\x7f\xc3\xa9=-1e-300@120", "train/loss=nan@-1",
                                               "test/loss=-inf@0"}));
}

TEST_F(MetricTest, OutsideOfAJobNothingIsWrittenButMistakesAreSaid) {
  ::unsetenv("DL_METRICS_FILE");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(report("loss", 0.5, 1), DLLEARNER_OK);
  ::setenv("DL_METRICS_FILE", "", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(report("loss", 0.5, 1), DLLEARNER_OK);
  EXPECT_EQ(report("", 0.5, 1), DLLEARNER_E_INVALID);
  EXPECT_EQ(content(), "");
}

TEST_F(MetricTest, WorkersThatLearner0StartsReportNothing) {
  for (const char* name : {"RANK", "LOCAL_RANK"}) {
    ::setenv(name, "1", 1);  // NOLINT(concurrency-mt-unsafe)
    EXPECT_EQ(in_child([] { return report("loss", 0.5, 1); }), DLLEARNER_OK);
    EXPECT_EQ(report("", 0.5, 1), DLLEARNER_E_INVALID);
    ::setenv(name, "0", 1);  // NOLINT(concurrency-mt-unsafe)
  }
  EXPECT_EQ(content(), "");
  EXPECT_EQ(in_child([] { return report("loss", 0.25, 1); }), DLLEARNER_OK);
  for (const char* name : {"RANK", "LOCAL_RANK"}) ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(found(), (std::vector<std::string>{"train/loss=0.25@1"}));
}

TEST_F(MetricTest, WhatIsNotAllowedIsRefused) {
  const dl_metric_value value = {"loss", 0.5};
  EXPECT_EQ(dl_metric(nullptr, 1, 0, DL_METRIC_TRAIN), DLLEARNER_E_INVALID);
  EXPECT_EQ(dl_metric(&value, 0, 0, DL_METRIC_TRAIN), DLLEARNER_E_INVALID);
  EXPECT_STREQ(dllearner_error(), "values: there are none; allowed: at least one");
  EXPECT_EQ(dl_metric(&value, 1, -2, DL_METRIC_TRAIN), DLLEARNER_E_INVALID);
  EXPECT_EQ(dl_metric(&value, 1, INT64_MAX, DL_METRIC_TRAIN), DLLEARNER_E_INVALID);
  EXPECT_EQ(dl_metric(&value, 1, 0, static_cast<dl_metric_group>(4)), DLLEARNER_E_INVALID);
  EXPECT_STREQ(dllearner_error(), "group: 4 is unknown; allowed: DL_METRIC_TRAIN, DL_METRIC_VALIDATE, DL_METRIC_TEST");
  EXPECT_EQ(report(nullptr, 0.5, 1), DLLEARNER_E_INVALID);
  EXPECT_EQ(report(std::string(201, 'x').c_str(), 0.5, 1), DLLEARNER_E_INVALID);
  for (const char* bad : {"\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "\xe0\x80\x80"})
    EXPECT_EQ(report(bad, 0.5, 1), DLLEARNER_E_INVALID) << bad;
  EXPECT_STREQ(dllearner_error(), "name: '\\xe0\\x80\\x80' is no name of a metric; allowed: 1 to 200 bytes of UTF-8");
  const std::string name(200, 'n');
  const std::vector<dl_metric_value> many(1000, dl_metric_value{name.c_str(), 1});
  EXPECT_EQ(dl_metric(many.data(), many.size(), 0, DL_METRIC_TRAIN), DLLEARNER_E_INVALID);
  EXPECT_EQ(content(), "");
  EXPECT_STREQ(dllearner_result_name(DLLEARNER_E_IO), "DLLEARNER_E_IO");
}

TEST_F(MetricTest, RecordsOfThreadsAndChildProcessesDoNotMix) {
  constexpr int kThreads = 4, kRecords = 200;
  const auto many = [](int who) {
    for (int i = 0; i < kRecords; ++i)
      if (report(("loss" + std::to_string(who)).c_str(), i, i) != DLLEARNER_OK) return 1;
    return 0;
  };
  ASSERT_EQ(in_child([&] {
              std::vector<std::thread> threads;
              for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { many(t); });
              // While they report.
              const pid_t pid = ::fork();
              if (pid == 0) ::_exit(many(kThreads));
              int status = -1;
              ::waitpid(pid, &status, 0);
              for (std::thread& thread : threads) thread.join();
              return status;
            }),
            0);
  const std::vector<std::string> all = found();
  EXPECT_LE(all.size(), static_cast<size_t>(kRecords) * (kThreads + 1));  // a disk that stands still costs some
  EXPECT_GT(all.size(), 0U);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(std::count(all.begin(), all.end(), "none"), 0);
}

TEST_F(MetricTest, AProgramsOwnFileWithTheSameDescriptorIsNotWrittenTo) {
  const std::string own = folder_ + "/checkpoint";
  ASSERT_EQ(in_child([&] {
              if (report("loss", 0.5, 1) != DLLEARNER_OK) return 1;
              for (int fd = 3; fd < 100; ++fd) ::close(fd);  // as daemons do
              for (int i = 0; i < 20; ++i)
                if (::open(own.c_str(), O_RDWR | O_CREAT, 0600) < 0) return 2;
              return report("loss", 0.25, 2) == DLLEARNER_OK ? 0 : 3;
            }),
            0);
  struct stat status {};
  ASSERT_EQ(::stat(own.c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 0);
  EXPECT_EQ(found(), (std::vector<std::string>{"train/loss=0.5@1", "train/loss=0.25@2"}));
}

TEST_F(MetricTest, TheFileTakesNoDescriptorOfStandardInputOutputAndError) {
  ASSERT_EQ(in_child([&] {
              for (int fd = 0; fd < 3; ++fd) ::close(fd);
              if (report("loss", 0.5, 1) != DLLEARNER_OK) return 1;
              for (int fd = 0; fd < 3; ++fd)
                if (::fcntl(fd, F_GETFD) >= 0) return 2;
              return ::write(1, "printed\n", 8) < 0 ? 0 : 3;
            }),
            0);
  EXPECT_EQ(found(), (std::vector<std::string>{"train/loss=0.5@1"}));
}

TEST_F(MetricTest, OnlyARegularFileIsWrittenTo) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const int reader = ::open(file_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_EQ(in_child([] { return report("loss", 0.5, 1); }), DLLEARNER_E_IO);
  char byte = 0;
  EXPECT_EQ(::read(reader, &byte, 1), 0);
  ::close(reader);
  const std::string own = folder_ + "/checkpoint";
  std::ofstream(own).flush();
  ASSERT_EQ(::unlink(file_.c_str()), 0);
  ASSERT_EQ(::symlink(own.c_str(), file_.c_str()), 0);
  EXPECT_EQ(in_child([] { return report("loss", 0.5, 1); }), DLLEARNER_E_IO);
  EXPECT_EQ(content(), "");
}

TEST_F(MetricTest, WhatWasLeftOutIsSaidOnceAlsoByTwoThreadsAtOnce) {
  constexpr int kRounds = 50, kThreads = 4;
  for (int round = 0; round < kRounds; ++round)
    ASSERT_EQ(in_child([&] {
                ::signal(SIGXFSZ, SIG_IGN);
                const rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
                if (::setrlimit(RLIMIT_FSIZE, &none) != 0) return 1;
                if (report("loss", 0.5, 1) != DLLEARNER_E_IO) return 2;
                if (::setrlimit(RLIMIT_FSIZE, &all) != 0) return 3;
                std::atomic<int> waiting{kThreads};
                std::vector<std::thread> threads;
                for (int t = 0; t < kThreads; ++t)
                  threads.emplace_back([&] {
                    for (waiting -= 1; waiting > 0;) continue;
                    report("loss", 0.5, 1);
                  });
                for (std::thread& thread : threads) thread.join();
                return 0;
              }),
              0);
  const std::string text = content();
  int said = 0;
  for (size_t at = text.find("\"left_out\""); at != std::string::npos; at = text.find("\"left_out\"", at + 1)) ++said;
  EXPECT_GT(said, 0);
  EXPECT_LE(said, kRounds);
}

TEST_F(MetricTest, AFileThatCannotBeWrittenIsAnErrorAndTheNextRecordIsWhole) {
  ASSERT_EQ(in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit small = {220, RLIM_INFINITY};  // bytes: one record and a part
              if (::setrlimit(RLIMIT_FSIZE, &small) != 0) return 1;
              if (report("loss", 0.5, 1) != DLLEARNER_OK) return 2;
              if (report("loss", 0.25, 2) != DLLEARNER_E_IO) return 3;
              if (report("loss", 0.25, 3) != DLLEARNER_E_IO) return 4;
              const rlimit large = {RLIM_INFINITY, RLIM_INFINITY};
              if (::setrlimit(RLIMIT_FSIZE, &large) != 0) return 5;
              return report("loss", 0.125, 4) == DLLEARNER_OK ? 0 : 6;
            }),
            0);
  EXPECT_EQ(found(), (std::vector<std::string>{"train/loss=0.5@1", "none", "train/loss=0.125@4"}));
  EXPECT_NE(content().find("\"left_out\":2"), std::string::npos);
  ::setenv("DL_METRICS_FILE", (folder_ + "/no/such/folder").c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(in_child([] { return report("loss", 0.5, 1); }), DLLEARNER_E_IO);
}

TEST_F(MetricTest, AFileOfTheLargestSizeGetsNoMore) {
  std::ofstream(file_).flush();
  ASSERT_EQ(::truncate(file_.c_str(), kMostMetricFile), 0);
  EXPECT_EQ(
      in_child([&] {
        if (report("loss", 0.5, 1) != DLLEARNER_OK) return 1;
        const int second = report("loss", 0.5, 2);
        return second == DLLEARNER_E_IO && std::string(dllearner_error()).find("256 MiB") != std::string::npos ? 0 : 2;
      }),
      0);
}

TEST(MetricTimeTest, ReportingMayHoldUpAProgramByATwentieth) {
  EXPECT_TRUE(may_report(0, 0));
  EXPECT_TRUE(may_report(2'000'000, 0));
  EXPECT_FALSE(may_report(2'000'001, 0));
  EXPECT_FALSE(may_report(10'000'000, 100'000'000));
  EXPECT_TRUE(may_report(7'000'000, 100'000'000));
}

}  // namespace
}  // namespace dl::learner
