// SPDX-License-Identifier: Apache-2.0
// What dlrun knows of its job before and after Slurm's first answer, without Slurm, and where nobody answers. What
// Slurm itself answers is tried with a real one, in tests/cluster: signals.bats (info(), put_back() while a question
// hangs, keep_begin_time()), hours.bats (KillWait), dlrun.bats
// (put_back(), hold()), lost_node.bats (release_nodes()).
#include "launcher/supervise/slurm_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/awake_clock.h"
#include "common/base/unique_fd.h"
#include "tests/unit/supervise_loop.h"

namespace dl::supervise {
namespace {

class SlurmJobTest : public LoopTest {
 protected:
  int heard_ = 0;
};

TEST_F(SlurmJobTest, WithoutSlurmTheAnswerIsAtOnceThatNothingIsKnown) {
  SlurmJob job(&loop_, "", [this](const slurm_cli::JobInfo& /*info*/) { ++heard_; });
  int answers = 0;
  job.ask([&](const SlurmJob::Answer& answer) {
    ++answers;
    EXPECT_FALSE(answer);
  });
  EXPECT_EQ(answers, 1);
  job.ask_kill_wait([&](int64_t /*seconds*/) { ++answers; });
  EXPECT_TRUE(job.idle());
  EXPECT_EQ(answers, 1) << "nobody was asked for KillWait";
  EXPECT_EQ(heard_, 0);
  EXPECT_FALSE(job.can_requeue());
  EXPECT_FALSE(job.may_be_requeued());
}

TEST_F(SlurmJobTest, AJobMayBeRequeuedUntilSlurmSaysThatItMayNot) {
  struct Row {
    bool batch, requeue, can;
  };
  for (const Row& row : {Row{true, true, true}, Row{true, false, false}, Row{false, true, false}}) {
    SlurmJob job(&loop_, "7", [this](const slurm_cli::JobInfo& /*info*/) { ++heard_; });
    EXPECT_FALSE(job.can_requeue()) << "Slurm has not answered";
    EXPECT_TRUE(job.may_be_requeued()) << "Slurm has not answered";
    slurm_cli::JobInfo info;
    info.batch = row.batch;
    info.requeue = row.requeue;
    job.learn(info);
    EXPECT_EQ(job.can_requeue(), row.can);
    EXPECT_EQ(job.may_be_requeued(), row.can);
  }
}

TEST_F(SlurmJobTest, WhatIsPostedIsDoneInItsOrderAndOfOneKeyOnlyTheNewest) {
  SlurmJob job(&loop_, "7", [this](const slurm_cli::JobInfo& /*info*/) { ++heard_; });
  std::string done;
  // None of these sends anything to Slurm.
  const auto nothing = [](const SlurmJob::Send& /*send*/) { return true; };
  job.run_step({"true"}, std::chrono::seconds(20), [&] { done += "a"; });
  job.set_comment(nothing, [&](bool ok) { done += ok ? "b" : "?"; });
  job.set_comment(nothing, [&](bool ok) { done += ok ? "c" : "?"; });
  EXPECT_FALSE(job.idle());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(job.idle());
  EXPECT_EQ(done, "ac");
}

// On a machine without Slurm's commands: nothing is answered, and a job of this number that runs somewhere is left
// alone.
class SlurmIsAwayTest : public SlurmJobTest {
 protected:
  void SetUp() override {
    SlurmJobTest::SetUp();
    char name[] = "/tmp/dl-no-slurm-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    path_ = std::getenv("PATH");
    ::setenv("PATH", name, 1);
  }
  void TearDown() override {
    SlurmJobTest::TearDown();
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(dir_);
  }
  std::string dir_, path_;
  std::vector<std::string> done_;
  SlurmJob job_{&loop_, "7", [this](const slurm_cli::JobInfo& /*info*/) { ++heard_; }};
};

TEST_F(SlurmIsAwayTest, ThereIsNoAnswerAndWhatWasKnownStays) {
  slurm_cli::JobInfo known;
  known.state = "RUNNING";
  job_.learn(known);
  int answers = 0;
  job_.ask([&](const SlurmJob::Answer& answer) {
    ++answers;
    EXPECT_FALSE(answer);
  });
  EXPECT_EQ(answers, 0) << "the loop does not wait for it";
  job_.ask_version([&] { ++answers; });
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(heard_, 0);
  ASSERT_TRUE(job_.info());
  EXPECT_EQ(job_.info()->state, "RUNNING");
  ASSERT_TRUE(job_.version());
  EXPECT_FALSE(job_.version()->at_least(1, 0));
}

TEST_F(SlurmIsAwayTest, KillWaitIsAskedForOnceAndIsThenSlurmsDefault) {
  for (int i = 0; i < 3; ++i) job_.ask_kill_wait([&](int64_t seconds) { done_.push_back(std::to_string(seconds)); });
  uv_run(&loop_, UV_RUN_DEFAULT);
  job_.ask_kill_wait([&](int64_t seconds) { done_.push_back(std::to_string(seconds)); });
  EXPECT_TRUE(job_.idle());
  EXPECT_EQ(done_, std::vector<std::string>{"30"});
}

TEST_F(SlurmIsAwayTest, OfBeginTimesThatWaitOnlyTheLastIsSet) {
  job_.run_step({"/bin/true"}, std::chrono::seconds(20), [&] { done_.emplace_back("step"); });
  for (const char* each : {"one", "two", "three"}) job_.keep_begin_time([&, each] { done_.emplace_back(each); });
  job_.hold();
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(done_, (std::vector<std::string>{"step", "three"}));
  EXPECT_TRUE(job_.idle());
}

TEST_F(SlurmIsAwayTest, WhatWaitsIsSentBeforeNodesAreReleased) {
  // Without slurmdbd, Slurm before 24.11 takes no update after a release.
  job_.release_nodes(
      {"n2"}, dir_, [&] { done_.emplace_back("no more comments"); },
      [&](const Status& released) { done_.emplace_back(released ? "released" : "not released"); });
  job_.set_comment([](const SlurmJob::Send& send) { return send("last words"); },
                   [&](bool done) { done_.emplace_back(done ? "commented" : "not commented"); });
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(done_, (std::vector<std::string>{"no more comments", "not commented", "not released"}));
}

TEST_F(SlurmIsAwayTest, AJobIsPutBackBesideAQuestionThatHangsButNotBeforeOneThatMayBeAnsweredSoon) {
  // What holds up the questions is a step that ends when it is told to; scontrol, too, would hold them up.
  struct Asked {
    std::vector<std::string> done;
    std::unique_ptr<SlurmJob> job;
    UniqueFd tell;
    void put_beside() {
      EXPECT_TRUE(done.empty());
      job->put_back(true, "n2", [this](const Status& put) {
        done.emplace_back(put ? "put back" : "second failed");
        EXPECT_FALSE(job->idle());
        EXPECT_EQ(::write(tell.get(), "end\n", 4), 4);
      });
    }
  };
  Asked of_job, of_kill_wait;
  for (Asked* asked : {&of_job, &of_kill_wait}) {
    asked->job = std::make_unique<SlurmJob>(&loop_, "7", [](const slurm_cli::JobInfo& /*info*/) {});
    const std::string told = dir_ + (asked == &of_job ? "/told-1" : "/told-2");
    ASSERT_EQ(::mkfifo(told.c_str(), 0600), 0);
    asked->tell = UniqueFd(::open(told.c_str(), O_RDWR | O_CLOEXEC));
    asked->job->run_step({"/bin/sh", "-c", "read word <" + told}, std::chrono::seconds(20),
                         [asked] { asked->done.emplace_back("step"); });
    if (asked == &of_job)
      asked->job->ask([asked](const SlurmJob::Answer& /*answer*/) { asked->done.emplace_back("answer"); });
    else
      asked->job->ask_kill_wait([asked](int64_t /*seconds*/) { asked->done.emplace_back("answer"); });
    asked->job->put_back(false, "",
                         [asked](const Status& put) { asked->done.emplace_back(put ? "put back" : "first failed"); });
  }
  const std::function<void()> put_beside = [&] {
    of_job.put_beside();
    of_kill_wait.put_beside();
  };
  // From 1.5 s on a question hangs, by the clock that goes on only as long as the loop looks at it.
  struct Later {
    uv_timer_t timer{};
    int64_t at_ms = 0;
    const std::function<void()>& then;
  } later{{}, awake_ms() + 1600, put_beside};
  uv_timer_init(&loop_, &later.timer);
  later.timer.data = &later;
  const auto look = [](uv_timer_t* timer) {
    const auto* its = static_cast<const Later*>(timer->data);
    if (awake_ms() < its->at_ms) return;
    its->then();
    uv_close(reinterpret_cast<uv_handle_t*>(timer), nullptr);
  };
  uv_timer_start(&later.timer, look, 50, 50);
  uv_run(&loop_, UV_RUN_DEFAULT);
  for (Asked* asked : {&of_job, &of_kill_wait}) {
    EXPECT_EQ(asked->done, (std::vector<std::string>{"second failed", "step", "answer", "first failed"}));
    EXPECT_TRUE(asked->job->idle());
    // All is answered: no question hangs any more.
    asked->done.clear();
    asked->job->run_step({"/bin/true"}, std::chrono::seconds(20), [asked] { asked->done.emplace_back("step"); });
    asked->job->put_back(false, "", [asked](const Status& /*put*/) { asked->done.emplace_back("third"); });
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(asked->done, (std::vector<std::string>{"step", "third"}));
  }
}

}  // namespace
}  // namespace dl::supervise
