// SPDX-License-Identifier: Apache-2.0
// The batch script of dlrun --submit. What bash and sbatch make of it is tested in tests/cluster/submit.bats.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launcher/submit/batch_script.h"
#include "launcher/submit/submit.h"

namespace dl::submit {
namespace {

ScriptInput input_of(std::vector<std::string> command) {
  ScriptInput input;
  input.sbatch = {{"job-name", "train"}, {"dl-learners", "2"}};
  input.dlrun = {"dlrun", "--placement", "cyclic"};
  input.command = std::move(command);
  input.work_dir = "/home/ada";
  input.typed = "dlrun --submit -n 2 -- train";
  return input;
}

TEST(SubmitScript, HoldsFlagsEnvironmentAndCommand) {
  ScriptInput input = input_of({"python3", "train.py", "--name", "it's"});
  input.environment = {{"VIRTUAL_ENV", "/venv"}, {"LOADEDMODULES", "gcc/12:cuda/12.4"}, {"HOME", "/home/ada"}};
  EXPECT_EQ(*batch_script(input),
            "#!/bin/bash\n"
            "#SBATCH --job-name=train\n"
            "#SBATCH --dl-learners=2\n"
            "# Written by: dlrun --submit -n 2 -- train\n"
            "! command -v module >/dev/null || module load gcc/12 cuda/12.4\n"
            "export VIRTUAL_ENV=/venv PATH=/venv/bin:$PATH\n"
            "cd -- /home/ada || exit\n"
            "exec dlrun --placement cyclic -- python3 train.py --name 'it'\\''s'\n");
}

TEST(SubmitScript, ValuesAreQuotedForSbatch) {
  ScriptInput input = input_of({"true"});
  input.sbatch = {{"chdir", "/a b\"c\\d#e"}, {"requeue", ""}, {"array", "1-3%2"}};
  const std::string script = *batch_script(input);
  EXPECT_NE(script.find("#SBATCH --chdir=\"/a b\\\"c\\\\d#e\"\n#SBATCH --requeue\n#SBATCH --array=1-3%2\n"),
            std::string::npos)
      << script;
}

TEST(SubmitScript, ALineBreakCannotAddADirective) {
  ScriptInput input = input_of({"true"});
  input.typed = "dlrun --submit -- sh -c 'a\n#SBATCH --uid=0'";
  EXPECT_EQ(batch_script(input)->find("\n#SBATCH --uid"), std::string::npos);
  input.sbatch = {{"comment", "a\n#SBATCH --uid=0"}};
  const auto refused = batch_script(input);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text, "--comment: 'a\\x0a#SBATCH --uid=0' holds a line break");
}

TEST(SubmitScript, TheJobIsNamedAfterTheProgram) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"python3", "-u", "dir/train.py", "--lr", "0.1"}, "train"},
      {{"/venv/bin/python", "-m", "pkg.train", "x.py"}, "pkg.train"},
      {{"./a.out", "b.txt"}, "a.out"},
      {{"bash", "-c", "echo a.b"}, "bash"},
      {{"env", "A=b.c", "python3", "run.me.py"}, "run.me"},
      {{"my program"}, "my_program"},
      {{"/.hidden"}, "dlrun.hidden"},
      {{"-x"}, "dlrun-x"},
      {{"dir/"}, "dlrun"},
      {{std::string(200, 'n')}, std::string(64, 'n')},
  };
  for (const auto& [command, name] : cases) EXPECT_EQ(job_name_of(command), name) << command.front();
}

TEST(SubmitScript, NothingIsOverwritten) {
  char folder[] = "/tmp/submit-test-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string base = folder;
  const auto content = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(write_script(base, "train", "one")->path, base + "/train.sbatch");
  EXPECT_EQ(write_script(base, "train", "two")->path, base + "/train-2.sbatch");
  const auto again = write_script(base, "train", "one");
  EXPECT_EQ(again->path, base + "/train.sbatch");
  EXPECT_FALSE(again->created);
  EXPECT_EQ(content(base + "/train.sbatch") + content(base + "/train-2.sbatch"), "onetwo");
  const auto failed = write_script(base + "/missing", "train", "one");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().text,
            "write " + base + "/missing/train.sbatch: No such file or directory; --submit keeps the batch script in " +
                "the current folder; allowed: to call it in a folder that you can write to, with --sbatch=--chdir=" +
                base + "/missing if learners shall start here");
  std::filesystem::remove_all(base);
}

}  // namespace
}  // namespace dl::submit
