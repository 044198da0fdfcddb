// SPDX-License-Identifier: Apache-2.0
// What is told of places of data before a job is submitted: by plugins, and by what dl-data shares with them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/this_process.h"
#include "common/contract/early_check.h"

namespace dl::data {
namespace {

TEST(RcloneConfiguration, its_sections_are_remotes) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(remotes_of("[lab]\ntype = s3\n\n[ my lab ]\r\n# [no]\nx = [y]\n[z"), (Names{"lab", "my lab"}));
  EXPECT_EQ(remotes_of(""), Names{});
  EXPECT_EQ(remotes_of("# Encrypted rclone configuration File\n\nRCLONE_ENCRYPT_V0:\nabc\n"), std::nullopt);
}

TEST(RcloneConfiguration, a_variable_makes_a_remote) {
  EXPECT_EQ(remote_variable("my-lab 2"), "RCLONE_CONFIG_MY_LAB_2_TYPE");
}

class EarlyCheck : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_), nullptr);
    for (const char* name : {"HOME", "USER"}) before_.emplace_back(name, environment_value(name));
    for (const char* name : {"RCLONE_CONFIG", "XDG_CONFIG_HOME", "RCLONE_CONFIG_FAR_TYPE"}) ::unsetenv(name);
    ::setenv("HOME", folder_, 1);
    ::setenv("USER", "ada", 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    for (const auto& [name, value] : before_) ::setenv(name, value.c_str(), 1);
    for (const char* name : {"RCLONE_CONFIG", "XDG_CONFIG_HOME", "RCLONE_CONFIG_FAR_TYPE"}) ::unsetenv(name);
  }
  std::string at(const std::string& name) const { return folder_ + ("/" + name); }
  void write(const std::string& name, const std::string& text, mode_t mode) const {
    std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path());
    std::ofstream(at(name)) << text;
    ::chmod(at(name).c_str(), mode);
  }
  char folder_[32] = "/tmp/dl-early-check-XXXXXX";
  std::vector<std::pair<const char*, std::string>> before_;
};

std::string said(const Status& status) {
  return status ? "" : status.error().text;
}

TEST_F(EarlyCheck, a_remote_is_looked_for_where_rclone_does) {
  EXPECT_NE(said(check_remote_here("lab:x")).find("not in your rclone configuration; make it"), std::string::npos);
  ::unsetenv("HOME");
  EXPECT_TRUE(check_remote_here("lab:x"));
  ::setenv("HOME", folder_, 1);
  write(".rclone.conf", "[old]\n", 0600);
  EXPECT_TRUE(check_remote_here("old:x"));
  write(".config/rclone/rclone.conf", "[lab]\n", 0600);
  EXPECT_TRUE(check_remote_here("lab:x"));
  EXPECT_EQ(said(check_remote_here("old:x")),
            "'old:x' names a remote that is not in your rclone configuration, " + at(".config/rclone/rclone.conf") +
                "; make it with rclone config, or set RCLONE_CONFIG before you submit");
  write("xdg/rclone/rclone.conf", "[mine]\n", 0600);
  ::setenv("XDG_CONFIG_HOME", at("xdg").c_str(), 1);
  EXPECT_TRUE(check_remote_here("mine:x"));
  EXPECT_FALSE(check_remote_here("lab:x"));
  ::setenv("RCLONE_CONFIG", at(".rclone.conf").c_str(), 1);
  EXPECT_TRUE(check_remote_here("old:x"));
  EXPECT_FALSE(check_remote_here("far:x"));
  ::setenv("RCLONE_CONFIG_FAR_TYPE", "sftp", 1);
  EXPECT_TRUE(check_remote_here("far:x"));
}

TEST_F(EarlyCheck, a_configuration_that_others_can_read_is_refused_and_an_encrypted_one_says_nothing) {
  write(".rclone.conf", "[lab]\nsecret = hunter2\n", 0640);
  const Status open = check_remote_here("lab:x");
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code, Errc::kDenied);
  EXPECT_EQ(open.error().text, at(".rclone.conf") + " can be read by others, with the credentials in it; chmod 600 it");
  write(".rclone.conf", "RCLONE_ENCRYPT_V0:\nabc\n", 0600);
  EXPECT_TRUE(check_remote_here("other:x"));
}

TEST_F(EarlyCheck, a_place_is_refused_where_a_file_is_in_its_way) {
  write("taken", "x", 0644);
  EXPECT_TRUE(check_can_store(at("new/below")));
  EXPECT_TRUE(check_can_store(at("")));
  EXPECT_EQ(said(check_can_store(at("taken/out"))),
            "'" + at("taken/out") + "' cannot be made: " + at("taken") +
                " is not a folder; allowed: a place in a folder that you may write to");
  EXPECT_FALSE(check_can_store(at("taken/job-%j")));
  for (const char* relative : {"relative/place", "%j/out", "out-%j", ""}) EXPECT_TRUE(check_can_store(relative));
}

TEST_F(EarlyCheck, a_folder_that_may_not_be_written_to_is_refused_unless_a_name_below_it_may_be_there) {
  const bool root = ::getuid() == 0;
  ASSERT_TRUE(!root || ::setreuid(65533, 0) == 0);  // access() asks for the real user
  // Nobody but root writes to / and /usr.
  const Status refused = check_can_store("/usr/dl-out/%j");
  EXPECT_EQ(said(refused),
            "'/usr/dl-out/%j' cannot be made: you may not write to /usr; allowed: a place in a folder that "
            "you may write to");
  EXPECT_FALSE(check_can_store("/dl-%j"));
  EXPECT_TRUE(check_can_store("/usr/%x/out"));
  EXPECT_FALSE(check_can_store("/usr/%u/out"));
  EXPECT_TRUE(check_can_store("/tmp/%u/out"));
  ASSERT_TRUE(!root || ::setreuid(0, 0) == 0);
}

}  // namespace
}  // namespace dl::data
