// SPDX-License-Identifier: Apache-2.0
// Which module reads Slurm's records for dlctl, and what is said where none can.
#include "launcher/ctl/slurm_modules.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

namespace dl::ctl {
namespace {

using slurm_cli::Version;

const std::vector<std::string> kFolders = {"/opt/dl/lib/slurm-dl", "/usr/lib/slurm-dl"};

TEST(SlurmModules, TheOneOfTheSlurmThatRunsHereIsChosen) {
  const std::vector<SlurmModule> there = {{"22.05", "/a/slurm-22.05/observe.so"},
                                          {"24.11", "/a/slurm-24.11/observe.so"}};
  auto chosen = choose_module(there, Version{24, 11, 5}, kFolders);
  ASSERT_TRUE(chosen) << chosen.error().text;
  EXPECT_EQ(*chosen, "/a/slurm-24.11/observe.so");
  // The micro release does not matter.
  chosen = choose_module(there, Version{22, 5, 11}, kFolders);
  ASSERT_TRUE(chosen) << chosen.error().text;
  EXPECT_EQ(*chosen, "/a/slurm-22.05/observe.so");
}

TEST(SlurmModules, WithoutOneASentenceSaysWhatWasLookedForWhatIsThereAndWhatToDo) {
  const std::vector<SlurmModule> there = {{"22.05", "/a/slurm-22.05/observe.so"},
                                          {"23.11", "/a/slurm-23.11/observe.so"}};
  const auto none = choose_module(there, Version{24, 5, 1}, kFolders);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kUnsupported);
  for (const char* part : {"Slurm 24.05", "/opt/dl/lib/slurm-dl/slurm-24.05/observe.so", "for Slurm 22.05, 23.11",
                           "--with-slurm", "make install-slurm-module"})
    EXPECT_NE(none.error().text.find(part), std::string::npos) << part << " in: " << none.error().text;
  EXPECT_EQ(none.error().text.find('\n'), std::string::npos);
  EXPECT_NE(none.error().text.back(), '.');
}

TEST(SlurmModules, ABuildWithoutAnySaysSo) {
  const auto none = choose_module({}, Version{24, 5, 1}, kFolders);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text.find("nor is there one for any other Slurm"), std::string::npos) << none.error().text;
}

TEST(SlurmModules, AMovedTreeIsSearchedBeforeTheFolderThatWasConfigured) {
  EXPECT_EQ(
      module_folders("/home/ann/dl/bin/dlctl", "/usr/bin", "/usr/lib/x86_64-linux-gnu/slurm-dl"),
      (std::vector<std::string>{"/home/ann/dl/lib/x86_64-linux-gnu/slurm-dl", "/usr/lib/x86_64-linux-gnu/slurm-dl"}));
  // Where it was not moved, each once.
  EXPECT_EQ(module_folders("/usr/bin/dlctl", "/usr/bin", "/usr/lib64/slurm-dl"),
            std::vector<std::string>{"/usr/lib64/slurm-dl"});
  // Where the program's own path is not known.
  EXPECT_EQ(module_folders("", "/usr/bin", "/usr/lib64/slurm-dl"), std::vector<std::string>{"/usr/lib64/slurm-dl"});
}

TEST(SlurmModules, FoldersAreReadInTheirOrder) {
  char name[] = "/tmp/dl-modules-XXXXXX";
  const std::string top = ::mkdtemp(name);
  for (const char* folder : {"/a", "/b", "/a/slurm-24.11", "/a/slurm-22.05", "/a/slurm-x", "/a/slurm-23.2",
                             "/a/slurm-25.05", "/b/slurm-22.05", "/b/slurm-23.11"})
    ASSERT_EQ(::mkdir((top + folder).c_str(), 0755), 0);
  for (const char* file :
       {"/a/slurm-24.11", "/a/slurm-22.05", "/a/slurm-x", "/a/slurm-23.2", "/b/slurm-22.05", "/b/slurm-23.11"})
    std::ofstream(top + file + "/observe.so") << "x";
  std::vector<std::string> found;
  const auto modules = find_modules({top + "/a", top + "/none", top + "/b"});
  found.reserve(modules.size());
  for (const SlurmModule& module : modules) found.push_back(module.series + " " + module.path.substr(top.size()));
  // 25.05 has no file in it; 22.05 of the second folder is behind that of the first.
  EXPECT_EQ(found, (std::vector<std::string>{"22.05 /a/slurm-22.05/observe.so", "23.11 /b/slurm-23.11/observe.so",
                                             "24.11 /a/slurm-24.11/observe.so"}));
  EXPECT_EQ(series_list(modules), "22.05, 23.11, 24.11");
  ASSERT_EQ(std::system(("rm -r " + top).c_str()), 0);
}

TEST(SlurmModules, OnlyOneOfTheSameReleaseAndForThisSlurmIsBelieved) {
  const observe::Module good = {"1.2.3", "24.11", observe::record_shape(), nullptr};
  EXPECT_TRUE(check_module(good, "/m.so", "1.2.3", "24.11"));
  observe::Module other = good;
  other.release = "1.2.2";
  const Status old = check_module(other, "/m.so", "1.2.3", "24.11");
  ASSERT_FALSE(old);
  for (const char* part : {"/m.so", "slurm-dl 1.2.2", "slurm-dl 1.2.3", "install"})
    EXPECT_NE(old.error().text.find(part), std::string::npos) << part << " in: " << old.error().text;
  other = good;
  other.series = "23.11";
  const Status misplaced = check_module(other, "/m.so", "1.2.3", "24.11");
  ASSERT_FALSE(misplaced);
  EXPECT_NE(misplaced.error().text.find("for Slurm 23.11"), std::string::npos) << misplaced.error().text;
  other = good;
  other.record_shape += 8;
  EXPECT_FALSE(check_module(other, "/m.so", "1.2.3", "24.11"));
}

}  // namespace
}  // namespace dl::ctl
