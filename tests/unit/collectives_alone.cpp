// SPDX-License-Identifier: Apache-2.0
// The C functions in a world of one, which needs no MPI.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "launcher/collectives/include/dllearner.h"

namespace {

class Alone : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"DL_RANK", "DL_WORLD_SIZE", "DL_SERVERS", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_SIZE",
                             "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"})
      ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
    ASSERT_EQ(dllearner_open(nullptr, &ctx_), DLLEARNER_OK) << dllearner_error();
  }
  void TearDown() override { dllearner_close(ctx_); }
  dllearner_ctx* ctx_ = nullptr;
};

TEST_F(Alone, IsRankZeroOfOneLearner) {
  EXPECT_EQ(dllearner_rank(ctx_), 0);
  EXPECT_EQ(dllearner_size(ctx_), 1);
  EXPECT_EQ(dllearner_servers(ctx_), 0);
  EXPECT_EQ(dllearner_role_of(ctx_), DLLEARNER_LEARNER);
  EXPECT_EQ(dllearner_rank(nullptr), -1);
  EXPECT_EQ(dllearner_role_of(nullptr), 0);
}

TEST_F(Alone, OperationsCopy) {
  const float in[3] = {1, 2, 3};
  float out[3] = {};
  EXPECT_EQ(dllearner_all_reduce(ctx_, in, out, 3, DLLEARNER_F32, DLLEARNER_MEAN), DLLEARNER_OK);
  EXPECT_EQ(std::memcmp(in, out, sizeof in), 0);
  EXPECT_EQ(dllearner_all_reduce(ctx_, out, out, 3, DLLEARNER_F32, DLLEARNER_MAX), DLLEARNER_OK);
  EXPECT_EQ(dllearner_broadcast(ctx_, out, 3, DLLEARNER_F32, 0), DLLEARNER_OK);
  EXPECT_EQ(dllearner_barrier(ctx_), DLLEARNER_OK);
  float other[3] = {};
  dllearner_request* request = nullptr;
  ASSERT_EQ(dllearner_all_gather_start(ctx_, in, other, 3, DLLEARNER_F32, &request), DLLEARNER_OK);
  int done = 0;
  EXPECT_EQ(dllearner_test(&request, &done), DLLEARNER_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(dllearner_wait(&request), DLLEARNER_OK);
  EXPECT_EQ(std::memcmp(in, other, sizeof in), 0);
  EXPECT_EQ(dllearner_reduce_scatter(ctx_, in, out, 3, DLLEARNER_F32, DLLEARNER_SUM), DLLEARNER_OK);
}

TEST_F(Alone, BadArgumentsAreRefusedWithASentence) {
  float data[2] = {};
  EXPECT_EQ(dllearner_all_reduce(nullptr, data, data, 2, DLLEARNER_F32, DLLEARNER_SUM), DLLEARNER_E_INVALID);
  EXPECT_STREQ(dllearner_error(), "ctx: the pointer is NULL");
  EXPECT_EQ(dllearner_all_reduce(ctx_, data, nullptr, 2, DLLEARNER_F32, DLLEARNER_SUM), DLLEARNER_E_INVALID);
  EXPECT_EQ(dllearner_all_reduce(ctx_, data, data, 2, static_cast<dllearner_dtype>(9), DLLEARNER_SUM),
            DLLEARNER_E_INVALID);
  EXPECT_EQ(dllearner_all_reduce(ctx_, data, data, 2, DLLEARNER_F32, static_cast<dllearner_op>(0)),
            DLLEARNER_E_INVALID);
  EXPECT_EQ(dllearner_all_reduce(ctx_, data, data, 2, DLLEARNER_I32, DLLEARNER_MEAN), DLLEARNER_E_INVALID);
  EXPECT_EQ(dllearner_all_reduce(ctx_, data, data, size_t{DLLEARNER_MAX_COUNT} + 1, DLLEARNER_F32, DLLEARNER_SUM),
            DLLEARNER_E_INVALID);
  EXPECT_EQ(dllearner_broadcast(ctx_, data, 2, DLLEARNER_F32, 1), DLLEARNER_E_INVALID);
  EXPECT_STREQ(dllearner_error(), "root: 1 is not a rank of this world; allowed: 0 to 0");
  EXPECT_EQ(dllearner_all_reduce(ctx_, nullptr, nullptr, 0, DLLEARNER_F32, DLLEARNER_SUM), DLLEARNER_OK);
  EXPECT_EQ(dllearner_wait(nullptr), DLLEARNER_E_INVALID);
  EXPECT_EQ(dllearner_open(nullptr, nullptr), DLLEARNER_E_INVALID);
}

TEST_F(Alone, TheSentenceIsTheThreadsOwn) {
  EXPECT_EQ(dllearner_broadcast(ctx_, nullptr, 2, DLLEARNER_F32, 0), DLLEARNER_E_INVALID);
  std::string other = "not read";
  std::thread([&other] { other = dllearner_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STREQ(dllearner_error(), "in or out is NULL, and count is 2; allowed: NULL only where count is 0");
}

TEST_F(Alone, BucketsGiveTheGradientsBack) {
  const size_t counts[3] = {2, 3, 4};
  dllearner_buckets* buckets = nullptr;
  ASSERT_EQ(dllearner_buckets_create(ctx_, DLLEARNER_F64, 3, counts, 56, &buckets), DLLEARNER_OK);
  double flat[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  double apart[4] = {5, 6, 7, 8};
  EXPECT_EQ(dllearner_buckets_ready(buckets, 0, flat), DLLEARNER_OK);
  EXPECT_EQ(dllearner_buckets_ready(buckets, 0, flat), DLLEARNER_E_STATE);
  EXPECT_EQ(dllearner_buckets_finish(buckets), DLLEARNER_E_STATE);
  EXPECT_STREQ(dllearner_error(),
               "parameter 1 is not ready; allowed: to finish when the gradients of all parameters are ready");
  EXPECT_EQ(dllearner_buckets_ready(buckets, 1, flat + 2), DLLEARNER_OK);
  EXPECT_EQ(dllearner_buckets_ready(buckets, 2, apart), DLLEARNER_OK);
  EXPECT_EQ(dllearner_buckets_ready(buckets, 3, apart), DLLEARNER_E_INVALID);
  EXPECT_EQ(dllearner_buckets_finish(buckets), DLLEARNER_OK);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(flat[i], i);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(apart[i], i + 5);
  size_t total = 0;
  size_t copied = 0;
  EXPECT_EQ(dllearner_buckets_count(buckets, &total, &copied), DLLEARNER_OK);
  EXPECT_EQ(total, 2U);   // 3 + 4 elements of 8 bytes, and 2
  EXPECT_EQ(copied, 1U);  // the one whose gradients lie apart
  dllearner_buckets_destroy(buckets);
  EXPECT_EQ(dllearner_buckets_create(ctx_, DLLEARNER_I32, 3, counts, 0, &buckets), DLLEARNER_E_INVALID);
  EXPECT_EQ(buckets, nullptr);
}

}  // namespace
