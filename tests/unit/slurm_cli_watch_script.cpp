// SPDX-License-Identifier: Apache-2.0
// What a script that watches a job takes for its end, where squeue and scontrol are replaced by commands of this test,
// and what the user's own settings for Slurm's commands change.
#include "launcher/slurm_cli/watch_script.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/process/child_process.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "launcher/slurm_cli/user_settings.h"

namespace dl::slurm_cli {
namespace {

class WatchScriptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* path = std::getenv("PATH")) path_ = path;
    folder_ = testing::TempDir() + "watch-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ::setenv("PATH", (folder_ + ":/usr/bin:/bin").c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    for (const char* name : kSet) ::unsetenv(name);
    std::filesystem::remove_all(folder_);
  }
  void command(const char* name, const std::string& body) {
    std::ofstream(folder_ + "/" + name) << "#!/bin/sh\n" << body << "\n";
    ASSERT_EQ(::chmod((folder_ + "/" + name).c_str(), 0700), 0);
  }
  // "state restarts" after one look.
  std::string look(const std::string& id = "12") {
    CommandOptions options;
    options.input = look_function(id) + "look\necho \"$state $restarts\"\n";
    const auto done = run_command({"/bin/sh"}, options);
    return done ? done->out + done->err : done.error().text;
  }

  static constexpr const char* kSet[] = {"SQUEUE_PARTITION", "SQUEUE_FORMAT", "SACCT_FORMAT", "SCANCEL_INTERACTIVE"};
  std::string path_, folder_;
};

TEST_F(WatchScriptTest, AJobIsThereOrGoneOrNothingIsKnownOfIt) {
  command("scontrol", "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)'; exit 1");
  command("squeue", "echo 'RUNNING             2           '");
  EXPECT_EQ(look(), "RUNNING 2\n");
  command("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  EXPECT_EQ(look(), "GONE error:\n");
  command("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
  EXPECT_EQ(look().front(), ' ');
}

// As with a filter that this test does not know, or of the element of an array that has others.
TEST_F(WatchScriptTest, AnEmptyAnswerSaysNothingOfTheJob) {
  command("squeue", "");
  command("scontrol", "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)'; exit 1");
  EXPECT_EQ(look().front(), ' ');
  command("scontrol", "printf 'JobId=12 JobName=Job 12 not found\\n   JobState=RUNNING\\n'");
  EXPECT_EQ(look().front(), ' ');
  command("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  EXPECT_EQ(look().substr(0, 4), "GONE");
  command("scontrol", "echo \"Job $3 not found\"; exit 1");
  EXPECT_EQ(look("12_3").substr(0, 4), "GONE");
}

TEST_F(WatchScriptTest, SettingsOfTheUserHideNoJobFromAScriptThatWatchesIt) {
  command("squeue", "[ -z \"${SQUEUE_PARTITION-}${SQUEUE_FORMAT-}\" ] && echo 'RUNNING             0           '");
  command("scontrol", "exit 1");
  ::setenv("SQUEUE_PARTITION", "debug", 1);
  ::setenv("SQUEUE_FORMAT", "%i", 1);
  EXPECT_EQ(look(), "RUNNING 0\n");
}

TEST_F(WatchScriptTest, CommandsOfSlurmAreStartedWithoutThem) {
  for (const char* name : kSet) ::setenv(name, "x", 1);
  const std::vector<std::string> names = user_settings();
  for (const char* name : kSet) EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  EXPECT_EQ(std::count(names.begin(), names.end(), "PATH"), 0);
  command("scancel", "! env | grep -E '^(SQUEUE|SACCT|SCANCEL)_' >&2");
  const Status done = cancel({"12"});
  EXPECT_TRUE(done) << done.error().text;
  command("sbatch", "! env | grep -E '^(SQUEUE|SACCT|SCANCEL)_' >&2 && echo 41");
  const auto id = submit({}, "#!/bin/sh\n");
  EXPECT_EQ(id ? *id : id.error().text, "41");
}

}  // namespace
}  // namespace dl::slurm_cli
