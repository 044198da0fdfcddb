// SPDX-License-Identifier: Apache-2.0
// A folder of one user below one of many: what others have put in its way.
#include "common/base/own_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/atomic_file.h"

namespace dl {
namespace {

class OwnFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-own-folder-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(OwnFolder, is_made_for_its_user_alone) {
  const auto made = own_folder(folder_ + "/site/caches", "7");
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(*made, folder_ + "/site/caches/7");
  struct stat status {};
  ASSERT_EQ(::stat(made->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  ASSERT_EQ(::chmod(made->c_str(), 0755), 0);
  ASSERT_TRUE(own_folder(folder_ + "/site/caches", "7"));
  ASSERT_EQ(::stat(made->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  EXPECT_FALSE(own_folder("relative", "7"));
}

TEST_F(OwnFolder, links_and_folders_of_others_are_not_followed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make files of others";
  ASSERT_TRUE(make_directories(folder_ + "/elsewhere"));
  ASSERT_EQ(::symlink((folder_ + "/elsewhere").c_str(), (folder_ + "/link").c_str()), 0);
  EXPECT_TRUE(own_folder(folder_ + "/link", "x"));
  ASSERT_EQ(::lchown((folder_ + "/link").c_str(), 12345, 12345), 0);
  const auto followed = own_folder(folder_ + "/link", "x");
  ASSERT_FALSE(followed);
  EXPECT_NE(followed.error().text.find("symbolic link of another user"), std::string::npos);
  ASSERT_EQ(::chown((folder_ + "/elsewhere").c_str(), 12345, 12345), 0);
  EXPECT_FALSE(own_folder(folder_ + "/elsewhere", "x"));
  // A folder of this name that somebody else has made before.
  ASSERT_TRUE(make_directories(folder_ + "/site/7"));
  ASSERT_EQ(::chown((folder_ + "/site/7").c_str(), 12345, 12345), 0);
  EXPECT_FALSE(own_folder(folder_ + "/site", "7"));
}

}  // namespace
}  // namespace dl
