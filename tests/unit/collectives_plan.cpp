// SPDX-License-Identifier: Apache-2.0
// libdllearner without peers: where a process stands, elements, buckets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "launcher/collectives/bucket_plan.h"
#include "launcher/collectives/elements.h"
#include "launcher/collectives/world.h"

namespace {

using namespace dl::learner;  // NOLINT(google-build-using-namespace)
using dl::Errc;
using Variables = std::map<std::string, std::string>;

dl::Result<WorldPlan> plan(const Variables& variables, const dllearner_options* options = nullptr,
                           bool mpi_running = false) {
  return plan_world(
      options,
      [&variables](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found != variables.end() ? found->second.c_str() : nullptr;
      },
      mpi_running);
}

dllearner_options options_with(int servers, double timeout_s) {
  dllearner_options options{};
  options.struct_size = sizeof options;
  options.servers = servers;
  options.timeout_s = timeout_s;
  return options;
}

TEST(World, AloneNeedsNoMpi) {
  for (const Variables& variables : {Variables{}, Variables{{"DL_RANK", "0"}, {"DL_WORLD_SIZE", "1"}},
                                     Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}}) {
    const auto world = plan(variables);
    ASSERT_TRUE(world);
    EXPECT_FALSE(world->use_mpi);
    EXPECT_EQ(world->size, 1);
  }
}

TEST(World, IsThatOfDlrunElseOfMpi) {
  const auto told = plan({{"DL_RANK", "2"}, {"DL_WORLD_SIZE", "4"}, {"DL_SERVERS", "1"}});
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->told && told->use_mpi);
  EXPECT_EQ(told->rank, 2);
  EXPECT_EQ(told->size, 4);
  EXPECT_EQ(told->servers, 1);
  for (const char* mark : {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    const auto launched = plan({{mark, "0"}});
    ASSERT_TRUE(launched);
    EXPECT_TRUE(launched->use_mpi && !launched->told) << mark;
  }
  EXPECT_TRUE(plan({}, nullptr, true)->use_mpi);
}

TEST(World, TasksThatDoNotKnowOfOneAnotherAreRefused) {
  const auto world = plan({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  ASSERT_FALSE(world);
  EXPECT_EQ(world.error().code, Errc::kConflict);
  EXPECT_NE(world.error().text.find("this job step has 4 tasks"), std::string::npos) << world.error().text;
}

TEST(World, BadValuesAreRefused) {
  const Variables bad[] = {{{"DL_RANK", "0"}},
                           {{"DL_WORLD_SIZE", "2"}},
                           {{"DL_RANK", "2"}, {"DL_WORLD_SIZE", "2"}},
                           {{"DL_RANK", "-1"}, {"DL_WORLD_SIZE", "2"}},
                           {{"DL_RANK", "0"}, {"DL_WORLD_SIZE", "0"}},
                           {{"DL_RANK", "0"}, {"DL_WORLD_SIZE", "2x"}},
                           {{"DL_RANK", "0"}, {"DL_WORLD_SIZE", "2"}, {"DL_SERVERS", "2"}},
                           {{"DL_SERVERS", "1"}}};
  for (const Variables& variables : bad) {
    const auto world = plan(variables);
    ASSERT_FALSE(world) << variables.begin()->first;
    EXPECT_EQ(world.error().code, Errc::kInvalid);
  }
  const Variables two = {{"DL_RANK", "0"}, {"DL_WORLD_SIZE", "2"}};
  dllearner_options options = options_with(-2, 0);
  EXPECT_FALSE(plan(two, &options));
  options = options_with(0, -3);
  EXPECT_FALSE(plan(two, &options));
  options = options_with(0, std::nan(""));
  EXPECT_FALSE(plan(two, &options));
  options = options_with(0, 0);
  options.struct_size = 4;
  EXPECT_FALSE(plan(two, &options));
}

TEST(World, OptionsWinOverTheEnvironment) {
  const Variables four = {{"DL_RANK", "0"}, {"DL_WORLD_SIZE", "4"}, {"DL_SERVERS", "1"}};
  dllearner_options options = options_with(2, 7);
  EXPECT_EQ(plan(four, &options)->servers, 2);
  EXPECT_EQ(plan(four, &options)->timeout_s, 7);
  options = options_with(-1, DLLEARNER_NO_TIMEOUT);
  EXPECT_EQ(plan(four, &options)->servers, 0);
  EXPECT_EQ(plan(four, &options)->timeout_s, 0);
}

TEST(World, MpiThatSaysOtherwiseIsTold) {
  WorldPlan world;
  world.told = world.use_mpi = true;
  world.rank = 1;
  world.size = 4;
  EXPECT_TRUE(check_world(world, 1, 4));
  auto alone = check_world(world, 0, 1);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, Errc::kConflict);
  EXPECT_EQ(alone.error().text,
            "DL_WORLD_SIZE is 4, but MPI_COMM_WORLD has 1 rank, so MPI was not told of the others: start it as dlrun "
            "--framework dllearner, by srun --mpi=pmix, or by mpirun of the MPI that libdllearner was built with");
  auto swapped = check_world(world, 2, 4);
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().text.find("DL_RANK is 1, but MPI numbers this process 2"), 0U);
  world.told = false;
  world.servers = 3;
  EXPECT_TRUE(check_world(world, 0, 4));
  EXPECT_FALSE(check_world(world, 0, 3));
}

TEST(Elements, EveryHalfSurvivesAndEveryFloatRoundsToTheNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float h = half_to_float(half);
    const float b = bfloat_to_float(half);
    if (std::isnan(h))
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(h))));
    else
      ASSERT_EQ(float_to_half(h), half);
    if (std::isnan(b))
      EXPECT_TRUE(std::isnan(bfloat_to_float(float_to_bfloat(b))));
    else
      ASSERT_EQ(float_to_bfloat(b), half);
  }
  // Halfway between two halves goes to the even one, a hair more or less to the nearer.
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = half_to_float(static_cast<uint16_t>(bits));
    const float high = half_to_float(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    ASSERT_EQ(float_to_half(middle), bits + (bits & 1U)) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9F)), bits + 1);
  }
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_half(-1e30F), 0xfc00);
  EXPECT_EQ(float_to_half(1e-30F), 0);
  EXPECT_EQ(float_to_bfloat(1.00390625F), 0x3f80);  // halfway, to even
  EXPECT_EQ(float_to_bfloat(1.01171875F), 0x3f82);
}

TEST(Elements, OrderOfTheOperandsDoesNotMatter) {
  const std::vector<float> hard = {0.0F, -0.0F, 1.0F, -1.0F, INFINITY, -INFINITY, 1e-40F, 3.3e38F};
  for (int op : {DLLEARNER_SUM, DLLEARNER_MAX, DLLEARNER_MIN})
    for (float x : hard)
      for (float y : hard) {
        float xy = y;
        float yx = x;
        reduce_elements(DLLEARNER_F32, op, &x, &xy, 1);
        reduce_elements(DLLEARNER_F32, op, &y, &yx, 1);
        if (std::isnan(xy)) continue;  // inf - inf
        EXPECT_EQ(std::memcmp(&xy, &yx, sizeof xy), 0) << op << ' ' << x << ' ' << y;
      }
  float nan = NAN;
  float one = 1;
  reduce_elements(DLLEARNER_F32, DLLEARNER_MAX, &nan, &one, 1);
  EXPECT_TRUE(std::isnan(one));
}

TEST(Elements, IntegersWrapAround) {
  int64_t big = INT64_MAX;
  int64_t one = 1;
  reduce_elements(DLLEARNER_I64, DLLEARNER_SUM, &one, &big, 1);
  EXPECT_EQ(big, INT64_MIN);
  uint8_t byte = 250;
  const uint8_t ten = 10;
  reduce_elements(DLLEARNER_U8, DLLEARNER_SUM, &ten, &byte, 1);
  EXPECT_EQ(byte, 4);
}

TEST(Elements, UnknownTypesHaveNoSize) {
  EXPECT_EQ(element_size(DLLEARNER_F64), 8U);
  EXPECT_EQ(element_size(DLLEARNER_BF16), 2U);
  EXPECT_EQ(element_size(0), 0U);
  EXPECT_EQ(element_size(8), 0U);
}

TEST(Buckets, FillFromTheLastParameterUpToTheLimit) {
  const auto plan = plan_buckets({100, 10, 10, 30, 10}, 4, 200);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->size(), 3U);
  EXPECT_EQ((*plan)[0].first, 2U);  // 10 + 30 + 10 elements of 4 bytes: 200 bytes
  EXPECT_EQ((*plan)[0].elements, 50U);
  EXPECT_EQ((*plan)[1].first, 1U);
  EXPECT_EQ((*plan)[2].first, 0U);  // larger than the limit: alone
  EXPECT_EQ((*plan)[2].elements, 100U);
}

TEST(Buckets, BadParametersAreRefused) {
  EXPECT_FALSE(plan_buckets({}, 4, 0));
  EXPECT_FALSE(plan_buckets({1, 0}, 4, 0));
  EXPECT_FALSE(plan_buckets({size_t{1} << 31}, 4, 0));
  EXPECT_EQ(plan_buckets({(size_t{1} << 31) - 1, 7}, 4, 0)->size(), 2U);
}

TEST(Buckets, EveryParameterIsInOneBucketWhateverTheSizes) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<size_t> counts(1 + random() % 40);
    for (size_t& count : counts) count = 1 + random() % 1000;
    const size_t limit = 1 + random() % 5000;
    const auto plan = plan_buckets(counts, 4, limit);
    ASSERT_TRUE(plan);
    size_t end = counts.size();
    for (const Bucket& bucket : *plan) {
      ASSERT_EQ(bucket.first + bucket.parameters, end);
      ASSERT_GE(bucket.parameters, 1U);
      size_t elements = 0;
      for (size_t i = bucket.first; i < end; ++i) elements += counts[i];
      ASSERT_EQ(bucket.elements, elements);
      ASSERT_TRUE(bucket.parameters == 1 || elements * 4 <= limit);
      end = bucket.first;
    }
    ASSERT_EQ(end, 0U);
  }
}

TEST(Buckets, StartInTheSameOrderWhateverAppearsFirst) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<size_t> counts(1 + random() % 20, 10);
    BucketQueue queue(*plan_buckets(counts, 4, 40 * (1 + random() % 4)), counts.size());
    std::vector<size_t> order(counts.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int pass = 0; pass < 2; ++pass) {
      std::shuffle(order.begin(), order.end(), random);
      std::vector<bool> ready(counts.size());
      size_t started = 0;
      for (size_t parameter : order) {
        ASSERT_FALSE(queue.all_started());
        ASSERT_TRUE(queue.ready(parameter));
        ASSERT_FALSE(queue.ready(parameter));
        ready[parameter] = true;
        for (; queue.can_start(); queue.advance()) {
          ASSERT_EQ(queue.next(), started++);
          const Bucket& bucket = queue.buckets()[queue.next()];
          for (size_t i = 0; i < bucket.parameters; ++i) ASSERT_TRUE(ready[bucket.first + i]);
        }
      }
      ASSERT_TRUE(queue.all_started());
      ASSERT_EQ(queue.missing(), counts.size());
      ASSERT_FALSE(queue.ready(counts.size()));
      queue.reset();
      ASSERT_EQ(queue.missing(), 0U);
    }
  }
}

}  // namespace
