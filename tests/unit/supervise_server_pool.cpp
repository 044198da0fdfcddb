// SPDX-License-Identifier: Apache-2.0
// The pool of an attempt: what its servers and learners are told, and that nothing of it stays.
#include "launcher/supervise/server_pool.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "launcher/pool/secret.h"
#include "tests/unit/supervise_loop.h"
#include "tests/unit/supervise_plan.h"

namespace dl::supervise {
namespace {

class ServerPoolTest : public LoopTest {
 protected:
  ServerPoolTest() : plan_(plan_of(5)) {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    plan_.servers = 3;
    plan_.pool = ServerRange{2, 3, true};
    plan_.job_dir = folder_;
  }
  ~ServerPoolTest() override { std::filesystem::remove_all(folder_); }
  // What a pool has left to do refers to it.
  void finish() { uv_run(&loop_, UV_RUN_DEFAULT); }
  std::string folder_ = testing::TempDir() + "pool-XXXXXX";
  plan::LaunchPlan plan_;
};

TEST_F(ServerPoolTest, ANewPoolForEachAttemptWithASecretOfItsOwn) {
  ServerPool pool(&loop_);
  EXPECT_FALSE(pool.is_open());
  EXPECT_EQ(pool.status().max, 0);
  plan::RunFacts first, second;
  ASSERT_TRUE(pool.open(plan_, "127.0.0.1:1", &first));
  EXPECT_EQ(first.pool_addr, "127.0.0.1");
  EXPECT_GT(first.pool_port, 0);
  EXPECT_EQ(pool.status().min, 2);
  EXPECT_EQ(pool.status().max, 3);
  EXPECT_EQ(pool.status().serving, 0);
  EXPECT_EQ(pool.status().wanted, 2);
  const std::string file = plan::pool_secret(plan_);
  struct stat status = {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  const auto secret = pool::read_secret(file);
  ASSERT_TRUE(secret);
  ASSERT_TRUE(pool.open(plan_, "127.0.0.1:1", &second));
  EXPECT_NE(second.pool_port, first.pool_port);
  const auto other = pool::read_secret(file);
  ASSERT_TRUE(other);
  EXPECT_NE(*other, *secret);
  pool.close();
  EXPECT_FALSE(pool.is_open());
  EXPECT_NE(::access(file.c_str(), F_OK), 0);
  finish();
}

TEST_F(ServerPoolTest, ItsPlacesAreThoseOfThePlan) {
  ServerPool pool(&loop_);
  plan::RunFacts facts;
  ASSERT_TRUE(pool.open(plan_, "127.0.0.1:1", &facts));
  for (int place = 0; place < 3; ++place) pool.places().free(place);
  EXPECT_EQ(pool.places().start(pool.now(), 0).size(), 2U) << "as many as the least";
  pool.close();
  finish();
}

TEST_F(ServerPoolTest, AFolderThatCannotBeWrittenIsSaid) {
  plan_.job_dir = folder_ + "/none";
  ServerPool pool(&loop_);
  plan::RunFacts facts;
  const Status opened = pool.open(plan_, "127.0.0.1:1", &facts);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().text.find("pool.secret"), std::string::npos) << opened.error().text;
  EXPECT_FALSE(pool.is_open());
}

}  // namespace
}  // namespace dl::supervise
