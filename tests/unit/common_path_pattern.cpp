// SPDX-License-Identifier: Apache-2.0
// Names of the job in paths: what each stands for, and what is refused in words.
#include <gtest/gtest.h>

#include <map>

#include "common/contract/path_pattern.h"

namespace dl {
namespace {

PathNames element() {
  PathNames names;
  name_job("12_3", &names);
  names.name = "a/b";
  names.user = "ada";
  names.home = "/home/ada";
  return names;
}

std::string expanded(const std::string& path, const PathNames& names) {
  auto found = expand_path(path, names);
  return found ? *found : "refused: " + found.error().text;
}

TEST(PathPattern, each_name_stands_for_what_sbatch_means_by_it) {
  EXPECT_EQ(expanded("ck-%j/%A/%a/%x/%u", element()), "ck-12_3/12/3/a_b/ada");
  EXPECT_EQ(expanded("~/ck", element()), "/home/ada/ck");
  EXPECT_EQ(expanded("~", element()), "/home/ada");
  EXPECT_EQ(expanded("a~b/%%j/%4a-%2A", element()), "a~b/%j/0003-12");
  EXPECT_EQ(expanded("/plain path", element()), "/plain path");
  PathNames alone;
  name_job("12", &alone);
  EXPECT_EQ(expanded("%j-%A", alone), "12-12");
  EXPECT_EQ(expanded("%5j", alone), "00012");
}

TEST(PathPattern, what_this_job_has_not_is_named) {
  PathNames alone;
  name_job("12", &alone);
  EXPECT_NE(expanded("ck-%a", alone)
                .find("'ck-%a': '%a' is the index in a job array, and this job is no element of an array"),
            std::string::npos);
  EXPECT_NE(expanded("%x", alone).find("'%x' is the job's name, and this run has none"), std::string::npos);
  EXPECT_NE(expanded("~/x", alone).find("the home directory is not known"), std::string::npos);
}

TEST(PathPattern, what_is_never_expanded_is_refused_before_the_job_is_there) {
  for (const char* good : {"ck", "%j", "~/ck-%A_%a", "%%", "100%%", "~", "%10j"})
    EXPECT_TRUE(check_path_pattern(good)) << good;
  for (const char* bad : {"%", "ck-%", "%q", "%N", "%11j", "%3%", "$HOME", "a${X}b", "`pwd`/ck", "~ada", "~ada/x"}) {
    const Status checked = check_path_pattern(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_NE(checked.error().text.find("allowed: %j (job id)"), std::string::npos) << checked.error().text;
    EXPECT_EQ(checked.error().text.find("'" + std::string(bad) + "'"), 0u) << checked.error().text;
  }
}

TEST(PathPattern, tells_whether_elements_of_an_array_get_their_own) {
  for (const char* own : {"%j", "x-%4a", "%%%a"}) EXPECT_TRUE(path_holds(own, "ja")) << own;
  for (const char* shared : {"ck", "%A", "%%j", "%x-%u", "%", "%4", "%%%%a"})
    EXPECT_FALSE(path_holds(shared, "ja")) << shared;
}

TEST(PathPattern, names_come_from_the_environment_of_a_job) {
  std::map<std::string, std::string> set = {
      {"SLURM_JOB_ID", "17"}, {"SLURM_ARRAY_JOB_ID", "12"}, {"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_JOB_NAME", "run"},
      {"USER", "ada"},        {"HOME", "relative"}};
  const auto variable = [&](const char* name) { return set.count(name) ? set.at(name) : std::string(); };
  const PathNames names = names_in_environment(variable);
  EXPECT_EQ(names.job, "12_3");
  EXPECT_EQ(names.name + names.user + names.home, "runada");
  set.erase("SLURM_ARRAY_TASK_ID");
  EXPECT_EQ(names_in_environment(variable).job, "17");
}

}  // namespace
}  // namespace dl
