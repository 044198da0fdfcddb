// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/open_below.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/record/event_log.h"

namespace dl::record {
namespace {

namespace fs = std::filesystem;

class OpenBelow : public testing::Test {
 protected:
  OpenBelow() {
    char path[] = "/tmp/dl-below-XXXXXX";
    root_ = ::mkdtemp(path);
    fs::create_directories(root_ + "/job/logs/attempt-1");
    write("job/logs/attempt-1/learner-0.log", "hello\n");
    write("secret", "of somebody else\n");
  }
  ~OpenBelow() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(root_ + "/" + name) << text; }
  Errc refused(const std::string& relative, Kind kind = Kind::kFile) const {
    const auto fd = open_below(root_ + "/job", relative, kind);
    EXPECT_FALSE(fd) << relative;
    return fd ? Errc::kInternal : fd.error().code;
  }
  std::string root_;
};

TEST_F(OpenBelow, OpensFilesAndFolders) {
  EXPECT_EQ(*read_below(root_ + "/job", "logs/attempt-1/learner-0.log", 100), "hello\n");
  EXPECT_TRUE(open_below(root_ + "/job", "logs", Kind::kFolder));
  EXPECT_EQ(refused("none"), Errc::kNotFound);
  EXPECT_EQ(refused("logs/attempt-2", Kind::kFolder), Errc::kNotFound);
  EXPECT_FALSE(read_below(root_ + "/job", "logs/attempt-1/learner-0.log", 5)) << "too large";
}

TEST_F(OpenBelow, TheJobDirectoryItselfMayBeReachedByALink) {
  fs::create_directory_symlink(root_ + "/job", root_ + "/short");
  EXPECT_TRUE(open_below(root_ + "/short", "logs", Kind::kFolder));
}

TEST_F(OpenBelow, FollowsNoLink) {
  const std::string job = root_ + "/job";
  fs::create_symlink(root_ + "/secret", job + "/plan.json");
  fs::create_symlink("logs/attempt-1/learner-0.log", job + "/inside");
  fs::create_directory_symlink(root_, job + "/up");
  fs::create_symlink(job + "/loop", job + "/loop");
  for (const char* name : {"plan.json", "inside", "up/secret", "loop"})
    EXPECT_EQ(refused(name), Errc::kInvalid) << name;
  EXPECT_EQ(refused("up", Kind::kFolder), Errc::kInvalid);
  const auto fd = open_below(job, "up", Kind::kFolder);
  EXPECT_NE(fd.error().text.find("is a link, which is not followed"), std::string::npos) << fd.error().text;
}

TEST_F(OpenBelow, OpensNothingButFilesAndWaitsForNothing) {
  const std::string job = root_ + "/job";
  ASSERT_EQ(::mkfifo((job + "/events.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(refused("events.jsonl"), Errc::kInvalid);
  EXPECT_EQ(refused("logs"), Errc::kInvalid);
  EXPECT_FALSE(open_below(job, "logs/attempt-1/learner-0.log", Kind::kFolder));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/control.json", job.c_str());
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(refused("control.json"), Errc::kInvalid);
  ::close(fd);
}

TEST_F(OpenBelow, RefusesWhatIsAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, which can give files away";
  ASSERT_EQ(::chown((root_ + "/job/logs/attempt-1/learner-0.log").c_str(), 65534, 65534), 0);
  EXPECT_EQ(refused("logs/attempt-1/learner-0.log"), Errc::kDenied);
}

// 40 GB without a line break, and a line as long as what is read: neither is taken into memory.
TEST_F(OpenBelow, AHistoryOfAnySizeIsReadFromItsEnd) {
  write("job/events.jsonl", "");
  ASSERT_EQ(::truncate((root_ + "/job/events.jsonl").c_str(), off_t{40} << 30), 0);
  std::ofstream(root_ + "/job/events.jsonl", std::ios::app) << "\n{\"time_ms\":1,\"attempt\":1,\"state\":\"FAILED\"}\n"
                                                            << std::string(200'000, '[') << "\n"
                                                            << "{\"time_ms\":2,\"attempt\":2,\"state\":\"HALTED\"}";
  const auto fd = open_below(root_ + "/job", "events.jsonl", Kind::kFile);
  ASSERT_TRUE(fd);
  const auto history = read_events(fd->get(), 8 << 20);
  ASSERT_TRUE(history);
  ASSERT_EQ(history->events.size(), 2U);
  EXPECT_EQ(history->events[1].attempt, 2);
  EXPECT_EQ(history->skipped_lines, 1);
}

}  // namespace
}  // namespace dl::record
