// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "slurm-plugin/sim/generate.h"
#include "tests/unit/sim_support.h"

namespace dl::sim {
namespace {

std::string text_of(const Trace& trace) {
  std::string text;
  EXPECT_TRUE(print_trace(trace, TraceFormat::kCsv, [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  }));
  return text;
}

TEST(SimGenerate, the_same_seed_makes_the_same_trace_and_another_makes_another) {
  const auto cluster = testing::cluster_of("a100=10x8");
  Shape shape;
  shape.days = 5;
  const std::string once = text_of(generate(shape, cluster));
  EXPECT_EQ(text_of(generate(shape, cluster)), once);
  shape.seed = 2;
  EXPECT_NE(text_of(generate(shape, cluster)), once);
}

// The published figures, within two per cent of all jobs.
TEST(SimGenerate, learners_have_the_published_sizes_and_the_load_is_what_was_asked_for) {
  const auto cluster = testing::cluster_of("a100=50x8");
  const Trace trace = generate(Shape{}, cluster);
  ASSERT_GT(trace.jobs.size(), 10'000U);
  double one = 0;
  double two = 0;
  double single = 0;
  double gpu_s = 0;
  double weekend = 0;
  double night = 0;
  for (const TraceJob& job : trace.jobs) {
    one += job.gpus == 1 ? 1 : 0;
    two += job.gpus == 2 ? 1 : 0;
    single += job.max_learners == 1 ? 1 : 0;
    gpu_s += static_cast<double>(job.run_s) * job.gpus * job.max_learners;
    weekend += job.submit_s / 86400 % 7 >= 5 ? 1 : 0;
    night += job.submit_s % 86400 < 6 * 3600 ? 1 : 0;
  }
  const auto all = static_cast<double>(trace.jobs.size());
  EXPECT_NEAR(one / all, 0.531, 0.02);
  EXPECT_NEAR(two / all, 0.217, 0.02);
  EXPECT_NEAR(single / all, 0.962, 0.02);
  EXPECT_NEAR(gpu_s / (400 * 60 * 86400.0), 0.85, 0.02);
  EXPECT_LT(weekend / all, 0.2);  // two days of seven
  EXPECT_LT(night / all, 0.1);    // a quarter of the day
  EXPECT_EQ(trace.tenants().size(), 6U);
  EXPECT_LE(trace.last_submit_s(), 60 * 86400);
}

TEST(SimGenerate, jobs_fit_the_cluster_and_take_its_tenants_and_types) {
  auto cluster = testing::cluster_of("k80=3x4,a100=2x8");
  add_tenants({"x", "y"}, &cluster);
  Shape shape;
  shape.days = 3;
  const Trace trace = generate(shape, cluster);
  for (const std::string& name : trace.tenants()) EXPECT_TRUE(name == "x" || name == "y") << name;
  for (const TraceJob& job : trace.jobs) {
    EXPECT_LE(job.gpus, job.type == "k80" ? 4 : 8);
    EXPECT_GE(job.limit_s, job.run_s);
    EXPECT_LE(job.gpus * job.max_learners, 8);
  }
}

}  // namespace
}  // namespace dl::sim
