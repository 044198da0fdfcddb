// SPDX-License-Identifier: Apache-2.0
// dlpolicyd refuses a slurmctld of another Slurm.
#include "slurm-plugin/observe/series.h"

#include <gtest/gtest.h>

namespace dl::observe {
namespace {

TEST(Series, TheMicroReleaseOfSlurmctldDoesNotMatter) {
  for (const char* version : {"22.05.8", "22.05.11", "22.05.0-0rc1", "22.05"})
    EXPECT_TRUE(check_series(version, "22.05"));
}

TEST(Series, AnotherSlurmIsRefusedInOneSentenceThatNamesBoth) {
  for (const char* version : {"23.02.1", "24.11.5", "22.5.1", "22.051", "2"}) {
    const Status refused = check_series(version, "22.05");
    ASSERT_FALSE(refused) << version;
    EXPECT_EQ(refused.error().code, Errc::kUnsupported);
    EXPECT_NE(refused.error().text.find(version), std::string::npos) << refused.error().text;
    EXPECT_NE(refused.error().text.find("built for Slurm 22.05"), std::string::npos) << refused.error().text;
  }
  EXPECT_FALSE(check_series("", "22.05"));
}

}  // namespace
}  // namespace dl::observe
