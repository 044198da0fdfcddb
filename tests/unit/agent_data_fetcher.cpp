// SPDX-License-Identifier: Apache-2.0
// The agent's part of fetching data, with scripts in dl-data's place: what it reports, and that nothing is left.
#include "launcher/agent/data_fetcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/process/child_process.h"

namespace dl::agent {
namespace {

class DataFetcherTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  protocol::Fetch fetch(const std::string& script) const {
    const std::string program = folder_ + std::string("/dl-data");
    std::ofstream(program) << "#!/bin/sh\np=" << folder_ << "/progress.json\n" << script << "\n";
    ::chmod(program.c_str(), 0755);
    return {{program, "fetch", "--hold"}, folder_ + std::string("/progress.json")};
  }
  // Waits for the child's end, as the agent's loop does.
  static std::optional<protocol::Fetched> end_of(DataFetcher* fetcher) {
    int status = 0;
    const pid_t pid = ::waitpid(fetcher->pid(), &status, 0);
    return fetcher->reaped(pid, shell_exit_code(status));
  }
  // Looks until there is news.
  static protocol::Fetched news_of(DataFetcher* fetcher) {
    for (int64_t now_ms = 1000;; now_ms += 1000) {
      if (const auto news = fetcher->look(now_ms)) return *news;
      ::usleep(1000);
    }
  }
  char folder_[32] = "/tmp/dl-fetcher-XXXXXX";
};

TEST_F(DataFetcherTest, reports_how_far_it_is_until_all_is_there) {
  DataFetcher fetcher;
  ASSERT_TRUE(
      fetcher.start(fetch("printf '{\"state\":\"fetching\",\"bytes\":1,\"total\":5,\"rate\":2}' >$p.new; mv $p.new $p\n"
                          "read line\nprintf '{\"state\":\"done\",\"bytes\":5,\"total\":5}' >$p.new; mv $p.new $p\n")));
  const protocol::Fetched first = news_of(&fetcher);
  EXPECT_EQ(first.state, "fetching");
  EXPECT_EQ(first.bytes, 1);
  EXPECT_EQ(first.total, 5);
  EXPECT_FALSE(first.done);
  EXPECT_EQ(first.exit, -1);
}

TEST_F(DataFetcherTest, says_nothing_new_once_all_is_there) {
  DataFetcher fetcher;
  ASSERT_TRUE(
      fetcher.start(fetch("printf '{\"state\":\"done\",\"bytes\":5,\"total\":5}' >$p.new; mv $p.new $p; read l")));
  EXPECT_TRUE(news_of(&fetcher).done);
  EXPECT_FALSE(fetcher.look(1'000'000'000));
}

TEST_F(DataFetcherTest, an_end_before_that_has_its_status_and_last_words) {
  DataFetcher fetcher;
  ASSERT_TRUE(fetcher.start(fetch("echo first >&2; echo 'lab:x: there is no such bucket' >&2; exit 65")));
  const auto end = end_of(&fetcher);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit, 65);
  EXPECT_FALSE(end->done);
  EXPECT_EQ(end->error, "lab:x: there is no such bucket");
  EXPECT_EQ(fetcher.pid(), 0);
}

TEST_F(DataFetcherTest, the_progress_of_an_earlier_attempt_does_not_count) {
  std::ofstream(folder_ + std::string("/progress.json")) << R"({"state":"done"})";
  DataFetcher fetcher;
  ASSERT_TRUE(fetcher.start(fetch("exit 75")));
  const auto end = end_of(&fetcher);
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->done);
  EXPECT_EQ(end->exit, 75);
}

TEST_F(DataFetcherTest, ends_with_the_agent) {
  const std::string mark = folder_ + std::string("/ended");
  {
    DataFetcher fetcher;
    ASSERT_TRUE(fetcher.start(
        fetch("printf '{\"state\":\"fetching\",\"total\":5}' >$p.new; mv $p.new $p; cat >/dev/null; : >" + mark)));
    news_of(&fetcher);
  }
  EXPECT_TRUE(std::filesystem::exists(mark)) << "the end of its input told it";
}

TEST_F(DataFetcherTest, holds_on_while_the_agent_begins_anew) {
  const std::string mark = folder_ + std::string("/ended"), spoken = folder_ + std::string("/spoken");
  pid_t pid = 0;
  {
    DataFetcher fetcher;
    ASSERT_TRUE(fetcher.start(fetch("printf '{\"state\":\"done\"}' >$p.new; mv $p.new $p; echo held >&2; : >" + spoken +
                                    "; cat >/dev/null; : >" + mark)));
    EXPECT_TRUE(news_of(&fetcher).done);
    pid = fetcher.pid();
    fetcher.keep();
  }
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), 0) << "it has ended";
  {
    DataFetcher after;
    after.adopt();
    EXPECT_EQ(after.pid(), pid);
    EXPECT_FALSE(after.has_started());
    EXPECT_EQ(std::getenv("DL_CONTROL_DATA"), nullptr) << "a learner would inherit it";
    EXPECT_FALSE(after.look(1'000'000'000)) << "all was there before";
    while (!std::filesystem::exists(spoken)) ::usleep(1000);  // what it says is still read by somebody
    EXPECT_FALSE(std::filesystem::exists(mark));
  }
  EXPECT_TRUE(std::filesystem::exists(mark)) << "it ends with the agent, as before";
}

TEST_F(DataFetcherTest, what_an_earlier_attempt_held_ends_before_the_next_one_fetches) {
  const std::string mark = folder_ + std::string("/ended");
  {
    DataFetcher fetcher;
    ASSERT_TRUE(
        fetcher.start(fetch("printf '{\"state\":\"done\"}' >$p.new; mv $p.new $p; cat >/dev/null; : >" + mark)));
    EXPECT_TRUE(news_of(&fetcher).done);
    fetcher.keep();
  }
  DataFetcher after;
  after.adopt();
  ASSERT_TRUE(after.start(fetch("printf '{\"state\":\"fetching\",\"total\":5}' >$p.new; mv $p.new $p; read l")));
  EXPECT_TRUE(std::filesystem::exists(mark));
  EXPECT_TRUE(after.has_started());
  EXPECT_EQ(news_of(&after).total, 5);
}

TEST_F(DataFetcherTest, only_what_has_all_is_kept_and_only_a_child_is_adopted) {
  pid_t pid = 0;
  {
    DataFetcher fetcher;
    ASSERT_TRUE(fetcher.start(fetch("printf '{\"state\":\"fetching\"}' >$p.new; mv $p.new $p; read l")));
    news_of(&fetcher);
    pid = fetcher.pid();
    fetcher.keep();
    EXPECT_EQ(fetcher.pid(), pid);
  }
  EXPECT_LT(::waitpid(pid, nullptr, WNOHANG), 0) << "it has not ended with the agent";
  for (const char* kept : {"1 1 2", "1 1", "x 1 2", "1", ""}) {
    ::setenv("DL_CONTROL_DATA", kept, 1);
    DataFetcher after;
    after.adopt();
    EXPECT_EQ(after.pid(), 0) << kept;
    EXPECT_EQ(std::getenv("DL_CONTROL_DATA"), nullptr) << kept;
  }
  EXPECT_GE(::fcntl(STDOUT_FILENO, F_GETFD), 0) << "a descriptor of somebody else was closed";
}

TEST_F(DataFetcherTest, a_program_that_is_missing_is_an_error) {
  DataFetcher fetcher;
  const Status started = fetcher.start({{folder_ + std::string("/none")}, folder_ + std::string("/p")});
  ASSERT_FALSE(started);
  EXPECT_EQ(fetcher.pid(), 0);
}

TEST(LastLine, is_the_last_one_with_words) {
  EXPECT_EQ(last_line(""), "");
  EXPECT_EQ(last_line("a\ndl-data: b\n\n  \n"), "b");
  EXPECT_EQ(last_line("one\x1b[31m"), "one\\x1b[31m");
}

}  // namespace
}  // namespace dl::agent
