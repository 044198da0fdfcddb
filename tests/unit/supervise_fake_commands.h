// SPDX-License-Identifier: Apache-2.0
// Commands of Slurm's as a test has them: shell scripts in a folder of their own, which comes first in PATH. Those that
// the test has not written are not found.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace dl::supervise {

class FakeCommands {
 public:
  FakeCommands() {
    if (const char* path = std::getenv("PATH")) path_ = path;
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    ::setenv("PATH", (folder_ + "/bin:/usr/bin:/bin").c_str(), 1);
    std::filesystem::create_directory(folder_ + "/bin");
    for (const char* name : {"sbatch", "scancel", "scontrol", "squeue"}) write(name, "exit 1");
  }
  ~FakeCommands() {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  FakeCommands(const FakeCommands&) = delete;
  FakeCommands& operator=(const FakeCommands&) = delete;

  // The command runs in the folder, where it may leave files. One that is given an input has to read it, as Slurm's do.
  void write(const std::string& name, const std::string& body) const {
    const std::string path = folder_ + "/bin/" + name;
    std::ofstream(path) << "#!/bin/sh\ncd " << folder_ << "\n" << body << "\n";
    EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
  }
  // scontrol shows each job with these lines after its number.
  void show_jobs(const std::string& lines) const {
    write("scontrol",
          "for id; do :; done; printf 'JobId=%s JobName=x\\n   UserId=ada(7) GroupId=ada(7) MCS_label=N/A\\n   " +
              lines + "\\n' \"$id\"");
  }
  std::string file(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_ = testing::TempDir() + "commands-XXXXXX", path_;
};

}  // namespace dl::supervise
