// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/event_log.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "common/base/atomic_file.h"
#include "common/contract/path_pattern.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_dir.h"
#include "launcher/record/job_runs.h"

namespace dl::record {
namespace {

class RecordTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-record-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + root_ + "'").c_str()), 0); }
  std::string root_;
};

Event processing(int attempt, std::optional<int64_t> step = {}) {
  Event event;
  event.time_ms = 1789000000000;
  event.attempt = attempt;
  event.state = JobState::kProcessing;
  event.step = step;
  return event;
}

TEST(EventTest, EveryMemberIsReadBack) {
  Event event = processing(3, 120);
  event.reason = "a \"reason\" with a\nnew line and ümlauts";
  event.learner = 2;
  event.code = "C201";
  event.restart = 1;
  event.exit = 137;
  event.host = "n3";
  std::string line = format_event(event);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  auto read = parse_event(line);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(format_event(*read), line);
  EXPECT_EQ(read->step, 120);
  EXPECT_EQ(read->learner, 2);
}

TEST(EventTest, TheDesignsExamplesParse) {
  EXPECT_TRUE(parse_event(R"({"time_ms":1,"attempt":1,"state":"PROCESSING","reason":"x"})"));
  EXPECT_TRUE(parse_event(R"({"time_ms":1,"attempt":1,"state":"FAILED","learner":2,"code":"C201","new_member":[1]})"));
}

TEST(EventTest, BadLinesAreRefused) {
  const char* lines[] = {"",
                         "{",
                         "[]",
                         "null",
                         "{}",
                         R"({"time_ms":1,"attempt":1})",
                         R"({"time_ms":"1","attempt":1,"state":"PROCESSING"})",
                         R"({"time_ms":1,"attempt":1,"state":"RUNNING"})",
                         R"({"time_ms":1,"attempt":1,"state":"FAILED","learner":"two"})",
                         R"({"time_ms":1,"attempt":1.5,"state":"FAILED"})"};
  for (const char* line : lines) EXPECT_FALSE(parse_event(line)) << line;
  EXPECT_FALSE(parse_event("{\"x\":\"" + std::string(100000, 'a') + "\"}"));
}

TEST(EventTest, BytesThatAreNotUtf8DoNotBreakTheLog) {
  Event event = processing(1);
  event.reason = "caf\xe9";
  EXPECT_TRUE(parse_event(format_event(event)));
}

TEST_F(RecordTest, ATornLastLineIsPassedOverAndSpoilsNoOther) {
  std::string path = root_ + "/events.jsonl";
  auto log = EventLog::open(path);
  ASSERT_TRUE(log);
  ASSERT_TRUE(log->append(processing(1)));
  std::ofstream(path, std::ios::app) << R"({"time_ms":17890)";  // a crash in mid-write
  log = EventLog::open(path);
  ASSERT_TRUE(log->append(processing(2)));
  auto history = read_events(path);
  ASSERT_TRUE(history);
  ASSERT_EQ(history->events.size(), 2U);
  EXPECT_EQ(history->events[1].attempt, 2);
  EXPECT_EQ(history->skipped_lines, 1);
}

TEST_F(RecordTest, NoFileIsNoHistory) {
  auto history = read_events(root_ + "/none");
  ASSERT_TRUE(history);
  EXPECT_TRUE(history->events.empty());
  EXPECT_EQ(summarise(history->events).attempts, 0);
}

TEST_F(RecordTest, AFolderInItsPlaceIsAnError) {
  EXPECT_FALSE(read_events(root_));
  EXPECT_FALSE(EventLog::open(root_));
}

TEST(SummaryTest, CountsAttemptsAndKeepsTheHighestStep) {
  Event deploy = processing(1);
  deploy.state = JobState::kDeploy;
  Event halted = processing(2);
  halted.state = JobState::kHalted;
  halted.reason = "paused";
  Event learner = processing(2);
  learner.learner = 0;
  learner.state = JobState::kFailed;
  JobSummary summary = summarise({deploy, processing(1, 50), processing(2, 40), halted, learner});
  EXPECT_EQ(summary.attempts, 2);
  EXPECT_EQ(summary.newest_step, 50);
  EXPECT_EQ(summary.state, JobState::kHalted);
  EXPECT_EQ(summary.reason, "paused");
}

TEST(SummaryTest, AStateBeganWhenItChangedAndNotWithTheNewestSave) {
  const auto at = [](Event event, int64_t time_ms, JobState state) {
    event.time_ms = time_ms;
    event.state = state;
    return event;
  };
  std::vector<Event> events = {at(processing(1), 1000, JobState::kDeploy),
                               at(processing(1), 2000, JobState::kProcessing),
                               at(processing(1, 50), 60000, JobState::kProcessing)};
  EXPECT_EQ(summarise(events).state_since_ms, 2000);
  events.push_back(at(processing(2), 70000, JobState::kProcessing));
  EXPECT_EQ(summarise(events).state_since_ms, 70000) << "another attempt";
}

TEST(SummaryTest, WhatWasPassedOverBeganWithThisStart) {
  std::vector<Event> events(2);
  events[0].attempt = events[1].attempt = 1;
  events[0].state = events[1].state = JobState::kCompleted;
  events[0].time_ms = 1000;
  events[1].time_ms = 90000;
  EXPECT_EQ(summarise(events).state_since_ms, 1000) << "told twice";
  events[1].passed = true;
  EXPECT_EQ(summarise(events).state_since_ms, 90000) << "a later start came by, and ran nothing";
}

TEST(EventTest, WhatARunHasUsedIsKeptWithNumbersAndReadToleratingOthers) {
  Event event = processing(1);
  event.use = UsedInAll{"used 31 % of 4 GPUs", {{"gpus", 4}, {"gpu_share", 0.314}}};
  auto read = parse_event(format_event(event));
  ASSERT_TRUE(read && read->use);
  EXPECT_EQ(read->use->text, event.use->text);
  EXPECT_EQ(read->use->numbers, event.use->numbers);
  event.learner = 3;
  event.use->text.clear();
  EXPECT_EQ(format_event(event).find("text"), std::string::npos) << "a learner's has none";
  read = parse_event(format_event(event));
  ASSERT_TRUE(read && read->use);
  EXPECT_EQ(read->use->numbers.at("gpu_share"), 0.314);
  event.use.reset();
  read = parse_event(format_event(event));
  EXPECT_TRUE(read && !read->use);
  const std::string begin = R"({"time_ms":1,"attempt":1,"state":"PROCESSING","use":)";
  read = parse_event(begin + R"({"text":7,"gpus":"x","later":{"a":1},"cpus":2}})");
  ASSERT_TRUE(read && read->use);
  EXPECT_EQ(read->use->text, "");
  EXPECT_EQ(read->use->numbers, (std::map<std::string, double>{{"cpus", 2}, {"text", 7}}));
  read = parse_event(begin + "[1]}");
  EXPECT_TRUE(read && !read->use);
}

TEST(RunDirTest, NamesGoBothWays) {
  EXPECT_EQ(run_dir("/x/dl-12", 1), "/x/dl-12");
  EXPECT_EQ(run_dir("/x/dl-12", 2), "/x/dl-12.2");
  for (const int number : {2, 3, 31, 1000000}) {
    const RunName name = split_run_dir(run_dir("/x.y/dl-12_3", number));
    EXPECT_EQ(name.first, "/x.y/dl-12_3");
    EXPECT_EQ(name.number, number);
  }
  for (const char* one : {"/x/dl-12", "/x.2/dl-12", "/x/dl-12.", "/x/dl-12.1", "/x/dl-12.0", "/x/dl-12.02", "/x/.2",
                          "/x/dl-12.x", "/x/dl-12.1000001", ".2", ""}) {
    EXPECT_EQ(split_run_dir(one).first, one);
    EXPECT_EQ(split_run_dir(one).number, 1) << one;
  }
}

TEST_F(RecordTest, NoMoreRunsAreLookedForThanAreAskedFor) {
  for (const int number : {1, 2, 5, 6}) ASSERT_TRUE(make_directories(run_dir(root_ + "/dl-1", number)));
  EXPECT_EQ(run_dirs(root_ + "/dl-1").size(), 4U);
  EXPECT_EQ(run_dirs(root_ + "/dl-1", 3).back().number, 5);
}

TEST(CommentTest, IsReadBackWithTheUsersTextInFront) {
  for (const char* user : {"", "my run | with a bar", "dl: not ours"}) {
    JobComment comment;
    comment.user_text = user;
    comment.state = JobState::kHalted;
    comment.attempt = 3;
    comment.step = 120;
    comment.pace = {125, 2.5, 7.5, 1'789'000'000};
    comment.scale = "12:;1/1:250";
    comment.vote = 6;
    comment.dir = "/home/a b/dl-12";
    comment.reason = "paused: saved at train step 120";
    auto read = parse_comment(format_comment(comment));
    ASSERT_TRUE(read) << format_comment(comment);
    EXPECT_EQ(read->user_text, user);
    EXPECT_EQ(read->state, JobState::kHalted);
    EXPECT_EQ(read->attempt, 3);
    EXPECT_EQ(read->step, 120);
    EXPECT_EQ(read->pace.step, 125);
    EXPECT_EQ(read->pace.at_s, 1'789'000'000);
    EXPECT_EQ(read->scale, comment.scale);
    EXPECT_EQ(read->vote, 6);
    EXPECT_EQ(read->dir, "/home/a b/dl-12");
    EXPECT_EQ(read->reason, comment.reason);
  }
}

TEST(CommentTest, ADirectoryWithAnyNameIsReadBack) {
  for (const char* dir : {"/w /dl-12", "/w/dl-12 ", " /w\t/dl-12\t", "/a reason=b/dl-12", "/a dir=\"b\"\\x09/dl-12",
                          "/\"a\" ", "/a\x7f\\\x01 reason="})
    for (const char* reason : {"", "saved \"in\" dir=/x reason=none"}) {
      JobComment comment;
      comment.attempt = 2;
      comment.dir = dir;
      comment.reason = reason;
      const auto read = parse_comment(format_comment(comment));
      ASSERT_TRUE(read) << format_comment(comment);
      EXPECT_EQ(read->dir, dir);
      EXPECT_EQ(read->reason, reason);
      EXPECT_EQ(read->attempt, 2);
    }
  const auto cut = parse_comment("dl:FAILED attempt=1 dir=\"/a\\x0");
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->dir, "") << "half a path leads somewhere else";
  EXPECT_EQ(cut->attempt, 1);
}

TEST(CommentTest, ForeignTextIsNotOurs) {
  for (const char* text : {"", "dl:", "dl:RUNNING", "hello", "x dl:FAILED attempt=1"}) {
    EXPECT_FALSE(parse_comment(text)) << text;
    EXPECT_EQ(user_part(text), text);
  }
}

TEST(CommentTest, FitsIntoSlurmsLimit) {
  JobComment comment;
  comment.user_text = std::string(5000, 'u');
  comment.reason = std::string(5000, 'r');
  EXPECT_LE(format_comment(comment).size(), 1024U);
}

TEST(JobDirTest, PatternsAreExpanded) {
  PathNames names;
  name_job("12_3", &names);
  EXPECT_EQ(expand_job_dir("dl-%j", "/home/a", names), "/home/a/dl-12_3");
  EXPECT_EQ(expand_job_dir("/scratch/%A/%a/", "/home/a", names), "/scratch/12/3");
  EXPECT_EQ(expand_job_dir("a%%j", "/b", names), "/b/a%j");
  EXPECT_EQ(expand_job_dir("%u/%x-%j", "/b", names), "") << "neither is known";
  names.user = "ada";
  names.name = "digits";
  EXPECT_EQ(expand_job_dir("%u/%x-%j", "/b", names), "/b/ada/digits-12_3");
}

TEST_F(RecordTest, FoldersAreMadeAndLatestPointsAtTheNewestAttempt) {
  JobDir dir(root_ + "/deep/er");
  ASSERT_TRUE(dir.prepare(1));
  ASSERT_TRUE(dir.prepare(2));
  char target[64] = "";
  ASSERT_GT(::readlink((dir.logs() + "/latest").c_str(), target, sizeof target - 1), 0);
  EXPECT_STREQ(target, "attempt-2");
  EXPECT_EQ(::access(dir.results().c_str(), F_OK), 0);
}

TEST_F(RecordTest, AFolderOrLinkOfAnotherUserIsNoJobDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  constexpr uid_t kOther = 1, kVictim = 2;
  for (const char* path : {"/mine", "/theirs"}) ASSERT_EQ(::mkdir((root_ + path).c_str(), 0777), 0);
  ASSERT_EQ(::chown((root_ + "/mine").c_str(), kVictim, kVictim), 0);
  ASSERT_EQ(::chown((root_ + "/theirs").c_str(), kOther, kOther), 0);
  for (const char* path : {"/good", "/bad"}) ASSERT_EQ(::symlink("mine", (root_ + path).c_str()), 0);
  ASSERT_EQ(::lchown((root_ + "/good").c_str(), kVictim, kVictim), 0);
  ASSERT_EQ(::lchown((root_ + "/bad").c_str(), kOther, kOther), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  ASSERT_EQ(::seteuid(kVictim), 0);
  const Status mine = JobDir(root_ + "/mine").make(0700), theirs = JobDir(root_ + "/theirs").make(0700),
               good = JobDir(root_ + "/good").make(0700), bad = JobDir(root_ + "/bad").make(0700);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(mine);
  EXPECT_TRUE(good);
  ASSERT_FALSE(theirs);
  EXPECT_EQ(theirs.error().code, Errc::kDenied);
  EXPECT_EQ(theirs.error().text,
            root_ +
                "/theirs: this job directory belongs to another user (uid 1), who could change what the job does; "
                "allowed: one that you (uid 2) or root own, or a path where nothing is yet (--job-dir); chown(1) gives "
                "a directory to another user");
  ASSERT_FALSE(bad) << "whoever owns a link decides where the files go";
  EXPECT_EQ(bad.error().code, Errc::kDenied);
}

// As on NFS with root_squash: what root makes there belongs to nobody, and a job that was put back finds its directory
// so.
TEST_F(RecordTest, AJobDirectoryThatTheServerGaveToAnotherUserIsUsedAgain) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make files as somebody else";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chmod(root_.c_str(), 0777), 0);
  const JobDir dir(root_ + "/squashed");
  ::setfsuid(kNobody);
  const Status first = dir.make(0700), again = dir.make(0700);
  ::setfsuid(0);
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_TRUE(again) << again.error().text;
  const std::string left = std::string("[ -z \"$(ls -A '") + dir.root() + "')\" ]";
  EXPECT_EQ(std::system(left.c_str()), 0) << "the look leaves nothing behind";
  EXPECT_FALSE(dir.make(0700)) << "another user's, where this process makes files of its own";
}

TEST_F(RecordTest, ControlAndRequestFilesAreReadBack) {
  ASSERT_TRUE(write_control(root_ + "/control.json", {"10.0.0.1", 4711, "00ff", "n1", 42}));
  auto info = read_control(root_ + "/control.json");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->host, "10.0.0.1");
  EXPECT_EQ(info->port, 4711);
  EXPECT_EQ(info->pid, 42);
  ASSERT_TRUE(write_request(root_ + "/request.json", {"pause", "why"}));
  EXPECT_EQ(read_request(root_ + "/request.json")->action, "pause");
  ASSERT_TRUE(write_file_atomically(root_ + "/bad", "{\"host\":1,\"port\":99999}"));
  EXPECT_FALSE(read_control(root_ + "/bad"));
  EXPECT_FALSE(read_request(root_ + "/bad"));
  EXPECT_EQ(read_control(root_ + "/none").error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace dl::record
