// SPDX-License-Identifier: Apache-2.0
// The user's own signal before the time limit, as sbatch --signal takes it.
#include "common/contract/own_signal.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dl {
namespace {

TEST(OwnSignal, is_read_as_sbatch_reads_it) {
  const struct {
    const char* text;
    int number, lead_s;
    bool to_script;
  } kGood[] = {{"USR1", SIGUSR1, 60, false},     {"10", 10, 60, false},
               {"USR1@90", SIGUSR1, 90, false},  {"B:USR1@60", SIGUSR1, 60, true},
               {"B:12@0", 12, 0, true},          {"R:TERM@120", SIGTERM, 120, false},
               {"RB:INT@1", SIGINT, 1, true},    {"SIGUSR2@5", SIGUSR2, 5, false},
               {"b:usr1@90", SIGUSR1, 90, true}, {"sigterm", SIGTERM, 60, false}};
  for (const auto& row : kGood) {
    const auto signal = parse_own_signal(row.text);
    ASSERT_TRUE(signal) << row.text;
    EXPECT_EQ(signal->number, row.number) << row.text;
    EXPECT_EQ(signal->lead_s, row.lead_s) << row.text;
    EXPECT_EQ(signal->to_script, row.to_script) << row.text;
    const auto again = parse_own_signal(format_own_signal(*signal));
    ASSERT_TRUE(again) << row.text;
    EXPECT_EQ(again->number, row.number);
  }
  for (const char* text :
       {"", "@", "USR9", "B:", ":USR1", "X:USR1", "USR1@", "USR1@x", "USR1@-1", "USR1@99999999", "0", "999"})
    EXPECT_FALSE(parse_own_signal(text)) << text;
}

TEST(OwnSignal, is_found_in_the_lines_that_sbatch_reads) {
  const auto found =
      own_signal_of_script("#!/bin/bash\n#SBATCH -N 2 --signal=B:USR1@90 # tell me\n\n#SBATCH --time=10\npython x\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->lead_s, 90);
  EXPECT_EQ(own_signal_of_script("#!/bin/sh\n#SBATCH --signal USR2@30\n#SBATCH --signal=TERM@20\n")->number, SIGTERM);
  EXPECT_FALSE(own_signal_of_script("#!/bin/bash\necho\n#SBATCH --signal=USR1\n")) << "behind a command";
  EXPECT_FALSE(own_signal_of_script("#!/bin/bash\n##SBATCH --signal=USR1\n# --signal=USR1\n#SBATCH # --signal=USR1\n"));
  EXPECT_FALSE(own_signal_of_script(""));
}

TEST(OwnSignal, is_found_however_the_line_is_written_that_sbatch_takes) {
  for (const char* line :
       {"#SBATCH\t--signal=B:USR1@90", "#SBATCH --time=10\t--signal\tB:USR1@90", "#SBATCH --signal=\"B:USR1@90\"",
        "#SBATCH '--signal=B:USR1@90'#mine", "#SBATCH --comment='a # b' --signal=b:usr1@90", "#SBATCH --sig=B:USR1@90",
        "#SBATCH --signal=B\\:USR1@90\r"}) {
    const auto found = own_signal_of_script(std::string("#!/bin/bash\n") + line + "\n");
    ASSERT_TRUE(found) << line;
    EXPECT_EQ(found->number, SIGUSR1) << line;
    EXPECT_EQ(found->lead_s, 90) << line;
    EXPECT_TRUE(found->to_script) << line;
  }
  for (const char* line : {" #SBATCH --signal=USR1", "#SBATCH --comment='--signal=USR1'x", "#SBATCH --s=USR1",
                           "#SBATCH --signals=USR1", "#sbatch --signal=USR1"})
    EXPECT_FALSE(own_signal_of_script(std::string("#!/bin/bash\n") + line + "\n")) << line;
}

}  // namespace
}  // namespace dl
