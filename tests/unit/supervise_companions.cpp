// SPDX-License-Identifier: Apache-2.0
// What dlrun keeps of companions where Slurm's commands are not there. What Slurm itself does with companions is tried
// with a real one, in tests/cluster/companion.bats.
#include "launcher/supervise/companions.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/supervise_loop.h"

namespace dl::supervise {
namespace {

class CompanionsTest : public LoopTest {
 protected:
  void SetUp() override {
    LoopTest::SetUp();
    if (const char* path = std::getenv("PATH")) path_ = path;
    ::setenv("PATH", "/nowhere", 1);
  }
  void TearDown() override {
    LoopTest::TearDown();
    ::setenv("PATH", path_.c_str(), 1);
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  // A command of Slurm's, as this test has it.
  void command(const char* name, const std::string& body) {
    if (folder_.empty()) {
      folder_ = testing::TempDir() + "companions-XXXXXX";
      ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
      ::setenv("PATH", (folder_ + ":/usr/bin:/bin").c_str(), 1);
    }
    std::ofstream(folder_ + "/" + name) << "#!/bin/sh\ncd " << folder_ << "\n" << body << "\n";
    ASSERT_EQ(::chmod((folder_ + "/" + name).c_str(), 0700), 0);
  }
  std::string file(const char* name) const {
    std::ifstream in(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int heard_ = 0;
  std::string path_, folder_;
};

TEST_F(CompanionsTest, OneThatCannotBeSubmittedIsToldAndNotKept) {
  Companions companions(&loop_, "7", "companion", [this](const std::string&, const CompanionState&) { ++heard_; });
  EXPECT_FALSE(companions.submitting());
  int told = 0;
  companions.submit(plan::LaunchPlan{}, 1, {}, [&](const Result<std::string>& id) {
    ++told;
    EXPECT_FALSE(id);
    EXPECT_FALSE(id.error().text.empty());
  });
  EXPECT_TRUE(companions.submitting());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(companions.submitting());
  EXPECT_TRUE(companions.held().empty());
  EXPECT_TRUE(companions.idle());
}

// Slurm's commands as this test has them: each job is 41, and waits.
TEST_F(CompanionsTest, OneForOfferedNodesThatStillWaitsAfterAMinuteHasComeToItsEnd) {
  command("sbatch", "cat >script; echo 41");
  command("scontrol",
          "printf 'JobId=%s JobName=x\\n   UserId=ada(7) GroupId=ada(7) MCS_label=N/A\\n   JobState=PENDING "
          "Reason=Resources Dependency=(null)\\n' \"$4\"");
  std::vector<CompanionState> heard;
  Companions companions(&loop_, "7", "companion",
                        [&](const std::string&, const CompanionState& state) { heard.push_back(state); });
  std::string id;
  companions.submit(plan::LaunchPlan{}, 1, OfferedNodes{},
                    [&](const Result<std::string>& job) { id = job ? *job : job.error().text; });
  uv_run(&loop_, UV_RUN_DEFAULT);
  ASSERT_EQ(id, "41");
  constexpr int64_t kBegin = 1'000'000;
  for (const int64_t at : {int64_t{0}, Companions::kWaitMs - 1}) {
    companions.look(kBegin + at);
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_TRUE(heard.empty());
  }
  companions.look_soon();
  companions.look(kBegin + Companions::kWaitMs);
  uv_run(&loop_, UV_RUN_DEFAULT);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0].kind, CompanionState::Kind::kOver);
  EXPECT_EQ(heard[0].why, "the nodes that it was to have are not free any more");
}

// Slurm has given each a number, and takes the first one back.
TEST_F(CompanionsTest, OfSeveralEachIsWatchedAndGivenBackByItself) {
  command("sbatch", "cat >script\necho x >>submitted\nexpr 40 + $(wc -l <submitted)");
  command("scancel", "shift; echo \"$*\" >>cancelled");
  command("scontrol",
          "case $4 in 41) state=COMPLETING ;; *) state=PENDING ;; esac\n"
          "printf 'JobId=%s JobName=x\\n   UserId=ada(7) GroupId=ada(7) MCS_label=N/A\\n   JobState=%s Reason=None "
          "Dependency=(null)\\n' \"$4\" $state");
  std::vector<std::string> ends;
  Companions companions(&loop_, "7", "companion", [&](const std::string& job, const CompanionState& state) {
    EXPECT_EQ(state.kind, CompanionState::Kind::kEnds);
    ends.push_back(job);
  });
  for (const char* expected : {"41", "42"}) {
    companions.submit(plan::LaunchPlan{}, 1, {}, [&](const Result<std::string>& job) {
      ASSERT_TRUE(job) << job.error().text;
      EXPECT_EQ(*job, expected);
    });
    uv_run(&loop_, UV_RUN_DEFAULT);
  }
  EXPECT_EQ(companions.held(), (std::vector<std::string>{"41", "42"}));
  companions.look(1'000'000);
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(ends, std::vector<std::string>{"41"});
  companions.give_back("41");
  EXPECT_EQ(companions.held(), std::vector<std::string>{"42"});
  companions.look_soon();
  companions.look(1'010'000);
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(ends.size(), 1U) << "the first is not looked at any more";
  EXPECT_EQ(file("cancelled"), "41\n");
  companions.give_back_all();
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(file("cancelled"), "41\n42\n");
}

// Slurm's commands as this test has them: while the file "away" exists, slurmctld does not answer; a job runs until it
// is cancelled, and then is ending.
class GivenBackTest : public CompanionsTest {
 protected:
  void SetUp() override {
    CompanionsTest::SetUp();
    const std::string away = "[ -e away ] && { echo 'error: Socket timed out on send/recv operation' >&2; exit 1; }\n";
    command("sbatch", "cat >script\necho x >>submitted\nid=$(expr 40 + $(wc -l <submitted))\necho $id >>jobs\n" + away +
                          "echo $id");
    command("scancel", away + "shift; echo \"$*\" >>cancelled");
    command("scontrol",
            "[ $4 = 7 ] || {\n" + away + "}\nstate=RUNNING; grep -qsx $4 cancelled && state=COMPLETING\n" +
                "printf 'JobId=%s JobName=x\\n   UserId=ada(7) GroupId=ada(7) MCS_label=N/A\\n   JobState=%s "
                "Reason=None Dependency=(null)\\n' \"$4\" $state");
    command("squeue",
            away +
                "echo \"$*\" >>asked\n[ -e jobs ] || exit 0\nwhile read id; do\n"
                "  state=RUNNING; grep -qsx $id cancelled && state=COMPLETING\n  echo $id $state\ndone <jobs");
  }
  void slurmctld_is_away(bool is_away) {
    if (is_away) {
      std::ofstream(folder_ + "/away") << "x";
    } else {
      std::filesystem::remove(folder_ + "/away");
    }
  }
  void job_appears(const char* id) { std::ofstream(folder_ + "/jobs", std::ios::app) << id << "\n"; }
  void submit(Companions* companions) {
    companions->submit(plan::LaunchPlan{}, 1, {},
                       [this](const Result<std::string>& job) { submitted_ = job ? *job : ""; });
    uv_run(&loop_, UV_RUN_DEFAULT);
  }
  // Looks twice a second for so long.
  void pass(Companions* companions, int64_t seconds) {
    for (const int64_t until = now_ms_ + seconds * 1000; now_ms_ < until; now_ms_ += 500) {
      companions->look(now_ms_);
      uv_run(&loop_, UV_RUN_DEFAULT);
    }
  }
  int64_t now_ms_ = 1'000'000;
  std::string submitted_;
};

TEST_F(GivenBackTest, OneIsGivenBackAgainAndAgainUntilSlurmHasTakenIt) {
  Companions companions(&loop_, "7", "companion", [](const std::string&, const CompanionState&) {});
  submit(&companions);
  ASSERT_EQ(submitted_, "41");
  slurmctld_is_away(true);
  companions.give_back("41");
  EXPECT_TRUE(companions.held().empty());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_FALSE(companions.idle()) << "it is not given back yet";
  pass(&companions, 5);
  EXPECT_EQ(file("cancelled"), "");
  slurmctld_is_away(false);
  pass(&companions, 10);
  EXPECT_EQ(file("cancelled"), "41\n");
  EXPECT_TRUE(companions.idle());
  pass(&companions, 100);
  EXPECT_EQ(file("cancelled"), "41\n") << "once is enough";
}

TEST_F(GivenBackTest, OneThatSlurmTookAlthoughItsSubmissionFailedIsGivenBackAlsoIfItAppearsLater) {
  Companions companions(&loop_, "7", "companion", [](const std::string&, const CompanionState&) {});
  submit(&companions);
  ASSERT_EQ(submitted_, "41");
  slurmctld_is_away(true);
  submit(&companions);
  EXPECT_EQ(submitted_, "");
  pass(&companions, 5);
  slurmctld_is_away(false);
  pass(&companions, 10);
  EXPECT_EQ(file("cancelled"), "42\n") << "and not the one that it has";
  EXPECT_EQ(companions.held(), std::vector<std::string>{"41"});
  job_appears("43");
  pass(&companions, 200);
  EXPECT_EQ(file("cancelled"), "42\n43\n");
  const std::string asked = file("asked");
  EXPECT_NE(asked.find("--me"), std::string::npos) << asked;
  EXPECT_NE(asked.find("--name=companion"), std::string::npos) << asked;
  pass(&companions, 200);
  EXPECT_EQ(file("asked"), asked) << "the search is over";
}

TEST_F(GivenBackTest, ThoseOfAnEarlierDlrunAreGivenBackAsSoonAsSlurmAnswers) {
  job_appears("31");
  job_appears("32");
  slurmctld_is_away(true);
  Companions companions(&loop_, "7", "companion", [](const std::string&, const CompanionState&) {});
  companions.give_back_strays(0);
  pass(&companions, 5);
  EXPECT_EQ(file("cancelled"), "");
  slurmctld_is_away(false);
  pass(&companions, 30);
  EXPECT_EQ(file("cancelled"), "31\n32\n");
  const std::string asked = file("asked");
  pass(&companions, 200);
  EXPECT_EQ(file("asked"), asked) << "one answer is enough";
}

TEST_F(CompanionsTest, WithoutCompanionsNobodyIsAskedAndNothingIsGivenBack) {
  Companions companions(&loop_, "7", "companion", [this](const std::string&, const CompanionState&) { ++heard_; });
  companions.look(1'000'000);
  companions.give_back_all();
  EXPECT_TRUE(companions.idle()) << "no command was started";
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(heard_, 0);
}

}  // namespace
}  // namespace dl::supervise
