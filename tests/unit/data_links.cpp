// SPDX-License-Identifier: Apache-2.0
// The links of a job to its data: several nodes may make them in one folder at once.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/atomic_file.h"
#include "launcher/data/fetch.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

class DataLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-data-links-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    ASSERT_TRUE(make_directories(folder_ + "/target"));
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(folder_)); }

  std::string folder_;
};

TEST_F(DataLinks, a_link_that_another_node_is_making_is_not_in_the_way) {
  // A process of another node that has this one's number, in the midst of it.
  ASSERT_TRUE(make_directories(folder_ + "/job.dl-" + std::to_string(::getpid()) + "/x"));
  const Status linked = link_to(folder_ + "/job", "", folder_ + "/target");
  EXPECT_TRUE(linked) << linked.error().text;
  EXPECT_EQ(::access((folder_ + "/job").c_str(), F_OK), 0);
}

TEST_F(DataLinks, names_may_be_as_long_as_the_file_system_allows) {
  const std::string longest(255, 'n');
  ASSERT_TRUE(make_directories(folder_ + "/target/" + longest));
  ASSERT_TRUE(make_directories(folder_ + "/job/mine"));
  const Status linked = link_to(folder_ + "/job", "", folder_ + "/target");
  EXPECT_TRUE(linked) << linked.error().text;
  EXPECT_EQ(::access((folder_ + "/job/" + longest).c_str(), F_OK), 0);
}

}  // namespace
}  // namespace dl::data
