// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "slurm-plugin/options.h"
#include "slurm-plugin/plugin_args.h"

namespace dl {
namespace {

const Option& option(const std::string& name) {
  for (const Option& row : kOptions)
    if (row.name == name) return row;
  throw std::runtime_error("no such flag: " + name);
}

TEST(Flags, have_unique_names_help_and_an_environment_variable) {
  std::set<std::string> names;
  for (const Option& row : kOptions) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(names.insert(row.env).second) << row.env;
    EXPECT_EQ(std::string(row.name).rfind("dl-", 0), 0U);
    EXPECT_EQ(std::string(row.env).rfind("DL_", 0), 0U);
    EXPECT_EQ(std::string(row.help).rfind("[dl] ", 0), 0U);
    EXPECT_LE(std::string(row.name).size(), 75U);  // SPANK_OPTION_MAXLEN
    EXPECT_LT(std::string(row.help).size(), 4096U);
    EXPECT_LT(std::string(row.name).size() + std::string(row.form).size(), 70U);  // srun formats into 80 bytes
  }
}

TEST(Flags, are_carried_by_slurm_under_a_name_without_dashes) {
  EXPECT_EQ(slurm_option_env(option("dl-framework")), "_SLURM_SPANK_OPTION_dl_dl_framework");
}

struct Case {
  const char* flag;
  const char* good;
  const char* bad;
};
const Case kCases[] = {{"dl-framework", "pytorch:1.13", "py torch"},
                       {"dl-learners", "2:4", "4:2"},
                       {"dl-servers", "2", "two"},
                       {"dl-gpus", "a100:2", "two"},
                       {"dl-batch", "16:64:4,rule=sqrt", "64:16"},
                       {"dl-checkpoint", "/ck,every=10m", ",every=1m"},
                       {"dl-restarts", "3", "-3"},
                       {"dl-tier", "borrow", "cheap"},
                       {"dl-hang-timeout", "30m", "soon"},
                       {"dl-preflight", "full", "some"},
                       {"dl-metrics", "loss=%{FLOAT:loss} || acc (?<acc>.*)", "loss"},
                       {"dl-placement", "spread", "heap"},
                       {"dl-image", "/images/a.sqfs", "docker://debian"},
                       {"dl-data", "lab:bucket/train,to=train", "s3://bucket/train"},
                       {"dl-results", "lab:bucket/results,checkpoint", "https://host/results"}};

TEST(Flags, take_good_values_and_name_themselves_when_they_refuse_one) {
  ASSERT_EQ(std::size(kCases), kOptionCount) << "a flag without cases";
  for (const Case& c : kCases) {
    JobRequest request;
    EXPECT_TRUE(read_option(option(c.flag), c.good, &request)) << c.flag;
    ASSERT_EQ(request.environment.size(), 1U);
    EXPECT_EQ(request.environment[0].first, option(c.flag).env);
    EXPECT_EQ(request.environment[0].second, c.good);
    Status refused = read_option(option(c.flag), c.bad, &request);
    ASSERT_FALSE(refused) << c.flag;
    EXPECT_EQ(refused.error().text.rfind(std::string("--") + c.flag + ": '" + c.bad, 0), 0U) << refused.error().text;
    EXPECT_NE(refused.error().text.find("; allowed: "), std::string::npos) << refused.error().text;
    EXPECT_EQ(request.environment[0].second, c.good) << "a bad value must change nothing";
    refused = read_option(option(c.flag), c.bad, &request, "DL_X in the environment");
    EXPECT_EQ(refused.error().text.rfind("DL_X in the environment: ", 0), 0U);
  }
}

TEST(Flags, given_twice_count_as_given_last) {
  JobRequest request;
  ASSERT_TRUE(read_option(option("dl-learners"), "2", &request));
  ASSERT_TRUE(read_option(option("dl-learners"), "2", &request));
  ASSERT_TRUE(read_option(option("dl-learners"), "5", &request));
  EXPECT_EQ(request.learners->max, 5);
  ASSERT_EQ(request.environment.size(), 1U);
  EXPECT_EQ(request.environment[0].second, "5");
}

TEST(Flags, reach_the_job_in_the_order_of_the_table) {
  JobRequest request;
  for (size_t i = std::size(kCases); i-- > 0;)
    ASSERT_TRUE(read_option(option(kCases[i].flag), kCases[i].good, &request));
  ASSERT_EQ(request.environment.size(), kOptionCount);
  for (size_t i = 0; i < kOptionCount; ++i) EXPECT_EQ(request.environment[i].first, kOptions[i].env);
}

TEST(Request, with_a_type_but_no_gpus_or_with_a_million_gpus_is_refused) {
  JobRequest request;
  ASSERT_TRUE(read_option(option("dl-gpus"), "a100:0", &request));
  EXPECT_FALSE(check_request(request));
  ASSERT_TRUE(read_option(option("dl-gpus"), "1024", &request));
  EXPECT_TRUE(check_request(request));
  ASSERT_TRUE(read_option(option("dl-learners"), "100000", &request));
  Status refused = check_request(request);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("102400000 GPUs"), std::string::npos) << refused.error().text;
}

TEST(Request, with_more_learners_than_the_largest_batch_has_samples_is_refused) {
  JobRequest request;
  ASSERT_TRUE(read_option(option("dl-batch"), "16:65:4", &request));
  EXPECT_TRUE(check_request(request)) << "nobody has said how many learners";
  ASSERT_TRUE(read_option(option("dl-learners"), "1:64", &request));
  EXPECT_TRUE(check_request(request));
  ASSERT_TRUE(read_option(option("dl-learners"), "1:65", &request));
  const Status refused = check_request(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kConflict);
  EXPECT_EQ(refused.error().text.rfind("--dl-batch: '16:65:4' has no batch for 65 learners", 0), 0U)
      << refused.error().text;
}

Result<PluginArgs> args(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse_plugin_args(static_cast<int>(pointers.size()), pointers.data());
}

TEST(PluginArguments, name_the_configuration) {
  EXPECT_EQ(args({})->config, "");
  EXPECT_EQ(args({"config=/etc/x.toml"})->config, "/etc/x.toml");
}

TEST(PluginArguments, that_are_unknown_are_refused) {
  for (const char* bad : {"conf=/x", "config", "config=", "config=rel", "", "\x01", "-v"}) {
    auto got = args({bad});
    ASSERT_FALSE(got) << bad;
    EXPECT_EQ(got.error().text.rfind("plugstack.conf: '", 0), 0U) << got.error().text;
    EXPECT_NE(got.error().text.find("allowed: config="), std::string::npos);
  }
  EXPECT_FALSE(args({"config=/a", "config=/b"}));
}

}  // namespace
}  // namespace dl
