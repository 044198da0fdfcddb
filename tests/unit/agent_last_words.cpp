// SPDX-License-Identifier: Apache-2.0
// What an agent finds of a learner that failed: its last lines, its exception, its error file, the kernel's count of
// victims.
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/agent/error_file.h"
#include "launcher/agent/last_lines.h"
#include "launcher/agent/oom_watch.h"

namespace dl::agent {
namespace {

using Lines = std::vector<std::string>;

TEST(LastLinesTest, KeepsTheLastOnesWhereverTheOutputIsCut) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  for (size_t size : {1UL, 7UL, 4096UL}) {
    LastLines lines;
    for (size_t at = 0; at < text.size(); at += size) lines.feed(std::string_view(text).substr(at, size));
    ASSERT_EQ(lines.lines().size(), LastLines::kLines);
    EXPECT_EQ(lines.lines().front(), "line 68");
    EXPECT_EQ(lines.lines().back(), "line 99");
  }
}

TEST(LastLinesTest, IsBoundedAndPrintable) {
  LastLines lines;
  lines.feed(std::string(100000, 'x'));
  lines.feed("\n\x1b[31mred\x01\xff \xc3\xa4 \xe2\x82\n  \n\nlast without an end");
  EXPECT_EQ(lines.lines(),
            (Lines{std::string(LastLines::kLineBytes, 'x'), "?[31mred?? \xc3\xa4 ??", "last without an end"}));
}

TEST(LastLinesTest, AProgressBarIsOneLine) {
  LastLines lines;
  lines.feed("start\r\n");
  for (int i = 0; i <= 100; ++i) lines.feed("\r" + std::to_string(i) + "%");
  lines.feed("\nend\n");
  EXPECT_EQ(lines.lines(), (Lines{"start", "100%", "end"}));
}

TEST(LastLinesTest, NamesTheException) {
  struct Row {
    const char* what;
    const char* text;
    const char* exception;
  };
  const Row rows[] = {
      {"none", "loss 0.3\nloss 0.2\n", ""},
      {"Python", "x\nTraceback (most recent call last):\n  File \"t.py\", line 3, in f\n    g()\nKeyError: 'lr'\n",
       "KeyError: 'lr'"},
      {"without an end", "Traceback (most recent call last):\n  File \"t.py\"\ntorch.OutOfMemoryError: CUDA",
       "torch.OutOfMemoryError: CUDA"},
      {"the last of several",
       "Traceback (most recent call last):\n  a\nKeyError: 1\n\nDuring handling of the above exception, another "
       "exception "
       "occurred:\n\nTraceback (most recent call last):\n  b\nValueError: 2\nmore of it\n",
       "ValueError: 2"},
      {"with torch's rank before it",
       "[rank0]: Traceback (most recent call last):\n[rank0]:   File x\n[rank0]: ValueError: 2\n[rank0]: more\n",
       "ValueError: 2"},
      {"C++", "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no such file\n",
       "std::runtime_error: no such file"},
      {"C++ without what()", "terminate called after throwing an instance of 'int'\n", "int"},
  };
  for (const Row& row : rows) {
    LastLines lines;
    lines.feed(row.text);
    EXPECT_EQ(lines.exception(), row.exception) << row.what;
  }
}

TEST(LastLinesTest, AnExceptionLongAgoIsNotTheCause) {
  LastLines lines;
  lines.feed("Traceback (most recent call last):\n  a\nKeyError: 1\n");
  for (int i = 0; i < 40; ++i) lines.feed("training on\n");
  EXPECT_EQ(lines.exception(), "");
}

TEST(ErrorFileTest, BothFormatsAndNonsense) {
  EXPECT_EQ(parse_error_file(R"({"message": {"message": "RuntimeError: CUDA out of memory.\nTried", "errorCode": 1,
    "extraInfo": {"py_callstack": "Traceback", "timestamp": "1789000000"}}})"),
            "RuntimeError: CUDA out of memory.");
  EXPECT_EQ(parse_error_file(R"({"message": "SIGSEGV"})"), "SIGSEGV");
  EXPECT_EQ(parse_error_file("{\"message\": \"" + std::string(5000, 'x') + "\"}").size(), LastLines::kLineBytes);
  for (const char* text :
       {"", "{", "[]", "{}", R"({"message":1})", R"({"message":{}})", R"({"message":{"message":[]}})"})
    EXPECT_EQ(parse_error_file(text), "") << text;
  EXPECT_EQ(read_error_file("/nonexistent"), "");
}

TEST(OomTest, Table) {
  struct Row {
    const char* what;
    int exit, signal;
    bool asked;
    OomCounts before, after;
    bool memory;
  };
  const Row rows[] = {
      {"killed, the cgroup has a victim more", -1, SIGKILL, false, {0, 5}, {1, 6}, true},
      {"killed by somebody", -1, SIGKILL, false, {1, 5}, {1, 5}, false},
      {"killed by dlrun", -1, SIGKILL, true, {0, 5}, {1, 6}, false},
      {"its worker was the victim", 1, 0, false, {0, 5}, {1, 6}, true},
      {"ended well all the same", 0, 0, false, {0, 5}, {1, 6}, false},
      {"no cgroup, the machine has a victim more", -1, SIGKILL, false, {-1, 5}, {-1, 6}, true},
      {"an exit code while another job had a victim", 1, 0, false, {0, 5}, {0, 6}, false},
      {"nothing is known", -1, SIGKILL, false, {-1, -1}, {-1, -1}, false},
      {"known only afterwards", -1, SIGKILL, false, {-1, -1}, {3, -1}, false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(died_of_memory(row.exit, row.signal, row.asked, row.before, row.after), row.memory) << row.what;
}

TEST(OomTest, FindsTheFileOfBothVersions) {
  const char* const v2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
  EXPECT_EQ(oom_file("0::/system.slice/slurmstepd/job_7/step_0/user/task_1\n", v2).path,
            "/sys/fs/cgroup/system.slice/slurmstepd/job_7/step_0/user/task_1/memory.events");
  const char* const v1 =
      "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "35 32 0:31 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
      "36 32 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(oom_file("5:memory:/slurm/uid_1/job_7/step_0\n0::/x\n", v1).path,
            "/sys/fs/cgroup/memory/slurm/uid_1/job_7/step_0/memory.oom_control");
  // A container: what is mounted is its own group.
  const char* const bound = "35 32 0:31 /box/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  EXPECT_EQ(oom_file("4:memory:/box/1\n", bound).path, "/sys/fs/cgroup/memory/memory.oom_control");
  EXPECT_EQ(oom_file("4:memory:/box/1/a\n", bound).path, "/sys/fs/cgroup/memory/a/memory.oom_control");
  EXPECT_EQ(oom_file("", v2).path, "");
  EXPECT_EQ(oom_file("nonsense\n::\n", "- \n1 2 - cgroup2\n").path, "");
}

TEST(OomTest, ReadsTheCount) {
  EXPECT_EQ(oom_kills("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"), 2);
  EXPECT_EQ(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 7"), 7);
  EXPECT_EQ(oom_kills("oom_kill_disable 0\nunder_oom 0\n"), -1);
  EXPECT_EQ(oom_kills("oom_kill x\n"), -1);
}

TEST(OomTest, ThisMachineCounts) {
  OomWatch watch;
  watch.start();
  EXPECT_GE(watch.at_start().machine, 0) << "/proc/vmstat has oom_kill since Linux 4.13";
}

}  // namespace
}  // namespace dl::agent
