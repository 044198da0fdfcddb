// SPDX-License-Identifier: Apache-2.0
// Which checkpoints are sent to an object store, and when. In place of dlckpt a script notes what it is asked to do and
// waits until it may; tests/python/test_object_store.py has the real one.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "checkpoint/client/object_program.h"
#include "checkpoint/client/object_sender.h"
#include "checkpoint/client/send_patience.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

CheckpointName name_of(uint32_t generation) {
  return CheckpointName{int64_t{generation} * 10, uint64_t{generation} << 32 | 7};
}

class ObjectSending : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(program_) << "#!/bin/sh\necho \"$@\" >>" << dir_.path() << "/asked\n"
                            << "while [ ! -e " << dir_.path() << "/go ]; do sleep 0.02; done\n"
                            << ". " << dir_.path() << "/go\n";
    ::chmod(program_.c_str(), 0700);
    ::setenv("DLCKPT_PROGRAM", program_.c_str(), 1);
  }
  void TearDown() override { ::unsetenv("DLCKPT_PROGRAM"); }
  // From now on each process does this, and no earlier.
  void go(const std::string& script) const {
    std::ofstream(dir_.path() + "/new") << script << "\n";
    std::rename((dir_.path() + "/new").c_str(), (dir_.path() + "/go").c_str());
  }
  std::vector<std::string> asked() const {
    std::ifstream file(dir_.path() + "/asked");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  void until_asked(size_t count) const {
    while (asked().size() < count) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  TempDir dir_;
  const std::string program_ = dir_.path() + "/program";
};

TEST_F(ObjectSending, WhileOneIsSentOnlyTheNewestWaitsAndNeitherIsRetired) {
  ObjectSender sender("/ck", "lab:x", RetentionPolicy{2, 5, BestMetric{"loss", true, 1}});
  EXPECT_TRUE(sender.held().empty());
  sender.offer(name_of(1));
  until_asked(1);
  sender.offer(name_of(2));
  sender.offer(name_of(3));
  EXPECT_EQ(sender.held(), (std::set<uint64_t>{name_of(1).save_id, name_of(3).save_id}));
  EXPECT_FALSE(sender.wait_for(0.05));
  go("echo ok");
  EXPECT_TRUE(sender.wait_for(60));
  EXPECT_TRUE(sender.held().empty());
  const std::string behind = " lab:x --keep 2 --keep-every 5 --best loss:min:1 --beside " + std::to_string(::getpid());
  EXPECT_EQ(asked(), (std::vector<std::string>{"send /ck/" + format_checkpoint_name(name_of(1)) + behind,
                                               "send /ck/" + format_checkpoint_name(name_of(3)) + behind}));
  EXPECT_EQ(sender.stats().sent, 2U);
  EXPECT_EQ(sender.stats().step, 30);
  EXPECT_EQ(sender.take_warning(), "");
}

TEST_F(ObjectSending, FailuresInARowAreCountedAndToldOnce) {
  go("echo 'dlckpt: the store is away' >&2; exit 3");
  ObjectSender sender("/ck", "lab:x", {});
  for (uint32_t i = 1; i <= 3; ++i) {
    sender.offer(name_of(i));
    EXPECT_TRUE(sender.wait_for(60));
  }
  EXPECT_EQ(sender.stats().failed, 3U);
  EXPECT_EQ(sender.stats().step, -1);
  EXPECT_EQ(sender.take_warning(),
            "objects=lab:x: train step 10 was not sent: the store is away; it is in the checkpoint directory, and the "
            "next one is tried");
  EXPECT_EQ(sender.take_warning(), "");
  go("echo ok");
  sender.offer(name_of(4));
  EXPECT_TRUE(sender.wait_for(60));
  EXPECT_EQ(sender.stats().step, 40);
  go("kill -9 $$");
  sender.offer(name_of(5));
  EXPECT_TRUE(sender.wait_for(60));
  EXPECT_NE(sender.take_warning().find("train step 50 was not sent: dlckpt ended without an answer"),
            std::string::npos);
}

TEST_F(ObjectSending, AnEndOfTheRunEndsIt) {
  const auto begin = std::chrono::steady_clock::now();
  {
    ObjectSender sender("/ck", "lab:x", {});
    sender.offer(name_of(1));
    until_asked(1);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(ObjectSending, AnAnswerCountsWhoeverReapsTheProcess) {
  go("echo ok a b; echo 'dlckpt: a remark' >&2");
  std::vector<std::string> remarks;
  const auto before = std::signal(SIGCHLD, SIG_IGN);  // the kernel does, as some programs want it
  const auto program = find_object_program();
  ASSERT_TRUE(program);
  const auto answer = run_object_program(
      *program, {"fetch"}, "", [] { return Status(); }, &remarks);
  std::signal(SIGCHLD, before);
  ASSERT_TRUE(answer) << answer.error().text;
  EXPECT_EQ(*answer, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(remarks, (std::vector<std::string>{"a remark"}));
}

TEST_F(ObjectSending, APlaceIsOfOneDirectoryOfAProgram) {
  go("echo ok");
  ObjectSender first("/ck", "lab:x", {}), other("/other", "lab:y", {});
  ASSERT_TRUE(first.open());
  ASSERT_TRUE(other.open());
  {
    ObjectSender second("/other", "lab:x", {});
    const Status opened = second.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().text,
              "objects=lab:x: another checkpoint directory of this program uses this place; allowed: a place for each "
              "directory (options.objects)");
  }
  EXPECT_FALSE(ObjectSender("/third", "lab:x", {}).open()) << "the refused one has not freed it";
}

TEST_F(ObjectSending, AMissingProgramIsRefusedWithASentence) {
  ::setenv("DLCKPT_PROGRAM", "/nowhere/dlckpt", 1);
  const Status checked = ObjectSender("/ck", "lab:x", {}).open();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Errc::kInvalid);
  EXPECT_NE(checked.error().text.find("objects=lab:x: the program dlckpt is neither"), std::string::npos);
}

// The end of a run whose newest checkpoint is on its way to the store.
class EndOfARun : public ObjectSending {
 protected:
  Settings settings() const {
    Settings settings = settings_for(dir_.path() + "/ck");
    settings.objects = "lab:x";
    settings.timeout_s = 2;
    return settings;
  }
  // What a sending does, once it is asked for.
  void sending(const std::string& script) const { go("case $* in *--check*) echo ok ;; *) " + script + " ;; esac"); }
  // Saves train step 5 through a context that is left to its end.
  std::unique_ptr<Context> saved() const {
    auto context = open_context(settings());
    EXPECT_TRUE(context) << context.error().text;
    PatternState state;
    state.fill(5);
    EXPECT_TRUE(state.enroll(**context));
    EXPECT_TRUE((*context)->save(5, DLCKPT_SYNC));
    return *std::move(context);
  }
  bool arrived() const { return ::access((dir_.path() + "/arrived").c_str(), F_OK) == 0; }
};

TEST_F(EndOfARun, WaitsForTheNewestCheckpointAsLongAsBytesMove) {
  sending("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo moved; sleep 0.25; done; : >" + dir_.path() +
          "/arrived; echo ok");
  auto context = saved();
  const std::string undone = context->leave();
  EXPECT_TRUE(arrived()) << "given up after timeout_s, although it moved";
  EXPECT_EQ(undone, "");
}

TEST_F(EndOfARun, GivesUpWhenNothingMovesAndSaysWhichCheckpointIsMissingWhereAndWhatToDo) {
  sending("echo moved; sleep 60");
  const auto begin = std::chrono::steady_clock::now();
  auto context = saved();
  const std::string dir = dir_.path() + "/ck";
  EXPECT_EQ(
      context->leave(),
      "objects=lab:x: the newest checkpoint, that of train step 5, is not there: nothing moved for 2 s; it is in " +
          dir + ", and the next run that restores from there sends it, as does: dlckpt send " + dir + " lab:x");
  EXPECT_EQ(context->leave(), "") << "the second time";
  context.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
}

TEST_F(EndOfARun, SaysWhyTheLastSendingFailed) {
  sending("echo 'dlckpt: the store is away' >&2; exit 3");
  const std::string undone = saved()->leave();
  EXPECT_NE(undone.find("train step 5, is not there: the store is away; it is in"), std::string::npos) << undone;
}

TEST_F(EndOfARun, IsToldToProgramsInC) {
  sending("echo 'dlckpt: the store is away' >&2; exit 3");
  const std::string dir = dir_.path() + "/ck";
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.c_str();
  options.objects = "lab:x";
  options.world_size = 1;
  int64_t value = 5;
  for (const bool stored : {false, true}) {
    dlckpt_ctx* ctx = nullptr;
    ASSERT_EQ(dlckpt_open(&options, &ctx), DLCKPT_OK) << dlckpt_open_error();
    ASSERT_EQ(dlckpt_tensor(ctx, "value", DLCKPT_I64, 0, nullptr, nullptr, nullptr, &value, DLCKPT_REPLICATED),
              DLCKPT_OK);
    ASSERT_EQ(dlckpt_save_flags(ctx, 5 + stored, DLCKPT_SYNC), DLCKPT_OK) << dlckpt_errmsg(ctx);
    dlckpt_close(ctx);
    EXPECT_EQ(std::string(dlckpt_close_error()).empty(), stored) << dlckpt_close_error();
    sending("echo ok");
  }
}

TEST(SendPatienceTest, LastsAsLongAsBytesMoveButNotLongAfterAStop) {
  SendPatience all_day(0, 600);
  for (int i = 1; i <= 86400; ++i) ASSERT_EQ(all_day.over(i, static_cast<uint64_t>(i / 599), false), "") << i;
  EXPECT_EQ(all_day.over(86400 + 700, 144, false), "nothing moved for 600 s");

  SendPatience stopped(0, 600);
  EXPECT_EQ(stopped.over(100, 1, false), "");
  EXPECT_EQ(stopped.over(101, 2, true), "");
  EXPECT_EQ(stopped.over(105.9, 3, false), "") << "a stop that was withdrawn is one all the same";
  EXPECT_EQ(stopped.over(106, 4, true), "the job was asked to end before it was sent");
}

}  // namespace
}  // namespace dl::ckpt::test
