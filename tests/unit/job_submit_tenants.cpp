// SPDX-License-Identifier: Apache-2.0
// GPU jobs of tenants: how many GPUs a submission is charged, as whose, and what is refused.
#include <gtest/gtest.h>

#include "slurm-plugin/job_submit/gpu_count.h"
#include "slurm-plugin/job_submit/modify_guard.h"
#include "slurm-plugin/job_submit/tenant_rules.h"
#include "slurm-plugin/policy/site_state.h"

namespace dl {
namespace {

SiteConfig site_of(const std::string& more = "") {
  auto config = parse_site_config(R"(
    [nodes]
    types = { a100 = 8, h100 = 4 }
    counts = { a100 = 2, h100 = 3 }
    [tenants.vision]
    quota = { any = 4, a100 = 8 }
    borrow_limit = 6
    max_job_gpus = 14
    [tenants.nlp]
    quota = { h100 = 6 }
    frameworks = ["generic", "pytorch"]
    images = ["/images/*.sif"]
    [tenants.guest]
    quota = 0
    max_user_gpus = 4
  )" + more,
                                  "dl.toml");
  EXPECT_TRUE(config) << config.error().text;
  return *config;
}

// "tasks=4 nodes=1-2 node=gpu:2": what sbatch would send.
Submission sent(const std::string& words) {
  Submission given;
  given.batch = true;
  const auto number = [](const std::string& text) { return std::optional<int64_t>(std::stoll(text)); };
  for (size_t start = 0; start < words.size();) {
    const size_t end = std::min(words.find(' ', start), words.size());
    const std::string word = words.substr(start, end - start);
    start = end + 1;
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "tasks") given.tasks = number(value);
    if (key == "pernode") given.tasks_per_node = number(value);
    if (key == "pergpu") given.tasks_per_gpu = number(value);
    if (key == "percore") given.tasks_per_core = number(value);
    if (key == "cpus") given.cpus_per_task = number(value);
    if (key == "cpus-per-gpu") given.cpus_per_gpu = true;
    if (key == "bind") given.enforce_binding = true;
    if (key == "overcommit") given.overcommit = true;
    if (key == "sockets") given.sockets_per_node = number(value);
    if (key == "min") given.min_nodes = number(value);
    if (key == "nodes") {
      given.min_nodes = number(value);
      given.max_nodes = number(value.substr(value.find('-') == std::string::npos ? 0 : value.find('-') + 1));
    }
    if (key == "job") given.tres_per_job = value;
    if (key == "node") given.tres_per_node = value;
    if (key == "socket") given.tres_per_socket = value;
    if (key == "task") given.tres_per_task = value;
    if (key == "exclusive") given.exclusive = value.empty();
    if (key == "exclusive") given.keeps_others_off = !value.empty();
    if (key == "partition") given.partition = value;
    if (key == "account") given.account = value;
    if (key == "licences") given.licences = value;
    if (key == "srun") given.batch = false;
    if (key == "requeue") given.requeue = value == "1";
  }
  return given;
}

struct Counted {
  const char* sent;
  const char* is;  // "LEAST-MOST TYPE xPER_LEARNER", and "@N" if the number of nodes has to be N
};
class Counts : public testing::TestWithParam<Counted> {};

// Slurm up to 24.11.0 and from 25.11 on; and between them.
constexpr GpuRule kFilled{false}, kAsNtasks{true};

std::string counted(const std::string& words, const GpuRule& rule) {
  const auto got = count_gpus(sent(words), site_of("[quota]\ncpu_partitions = [\"cpu\", \"login\"]\n"), rule);
  if (!got) return got.error().text;
  std::string is = std::to_string(got->least) + "-" + std::to_string(got->most) + " " + got->type + " x" +
                   std::to_string(got->per_learner);
  if (got->pinned_nodes > 0) is += "@" + std::to_string(got->pinned_nodes);
  return is;
}

TEST_P(Counts, are_what_slurm_can_give_at_most) {
  for (const GpuRule& rule : {kFilled, kAsNtasks})
    EXPECT_EQ(counted(GetParam().sent, rule), GetParam().is) << GetParam().sent;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Counts,
    testing::Values(
        Counted{"", "0-0  x1"}, Counted{"node=gres:lustre:4", "0-0  x1"}, Counted{"node=gpu:0", "0-0  x1"},
        Counted{"node=gres:gpu:2", "2-2  x2@1"}, Counted{"node=gres:gpu", "1-1  x1@1"},
        Counted{"node=gres:gpu:a100", "1-1 a100 x1@1"}, Counted{"node=gres/gpu:a100:2", "2-2 a100 x2@1"},
        Counted{"node=gpu=2", "2-2  x2@1"}, Counted{"node=gres/gpu:a100=2", "2-2 a100 x2@1"},
        Counted{"node=GPU:3", "3-3  x3@1"}, Counted{"node=gres:lustre:1,gres:gpu:2", "2-2  x2@1"},
        Counted{"node=gres:gpu:2,gres:gpu:1", "3-3  x3@1"}, Counted{"node=gres:gpu:1080ti:2", "2-2 1080ti x2@1"},
        Counted{"nodes=3 node=gpu:2", "6-6  x2"}, Counted{"nodes=1-3 node=gpu:2", "2-6  x2"},
        Counted{"min=2 node=gpu:2", "4-4  x2@2"}, Counted{"min=2 tasks=2 node=gpu:2", "4-4  x2@2"},
        Counted{"tasks=1 node=gpu:2", "2-2  x2@1"}, Counted{"tasks=5 pernode=2 node=gpu:2", "6-6  x2@3"},
        Counted{"job=gres:gpu:6", "6-6  x1"}, Counted{"job=gres:gpu:a100:6 node=gres:gpu:2 nodes=3", "6-6 a100 x1"},
        Counted{"tasks=4 task=gres:gpu:2", "8-8  x2"}, Counted{"task=gres/gpu=2", "2-2  x2@1"},
        Counted{"nodes=2 pernode=3 task=gpu:1", "6-6  x1"}, Counted{"tasks=4 nodes=1-4 task=gpu:a100:1", "4-4 a100 x1"},
        Counted{"tasks=4 task=gpu:1 nodes=3 node=gpu:2", "6-6  x2"},
        Counted{"socket=gpu:1 sockets=2 nodes=2", "4-4  x2"}, Counted{"tasks=5 pergpu=2", "3-3  x1"},
        Counted{"tasks=5 pergpu=2 job=gpu:4", "4-4  x1"}, Counted{"exclusive", "8-8  x8@1"},
        Counted{"exclusive nodes=2", "16-16  x8"}, Counted{"exclusive nodes=2 node=gpu:h100:1", "8-8 h100 x4"},
        Counted{"exclusive partition=cpu", "0-0  x1"}, Counted{"exclusive partition=cpu,login", "0-0  x1"},
        Counted{"exclusive partition=cpu,gpu", "8-8  x8@1"}, Counted{"exclusive job=gpu:2", "8-8  x8@1"},
        Counted{"exclusive=user partition=cpu", "0-0  x1"}));

struct CountedByVersion {
  const char* sent;
  const char* filled;
  const char* as_ntasks;
};
class CountsByVersion : public testing::TestWithParam<CountedByVersion> {};

TEST_P(CountsByVersion, follow_the_running_slurm) {
  EXPECT_EQ(counted(GetParam().sent, kFilled), GetParam().filled) << GetParam().sent;
  EXPECT_EQ(counted(GetParam().sent, kAsNtasks), GetParam().as_ntasks) << GetParam().sent;
}

// What Slurm 24.11.5 gave, with one and with two threads for each core, is in the comments; 22.05.8 always filled.
INSTANTIATE_TEST_SUITE_P(
    Table, CountsByVersion,
    testing::Values(
        CountedByVersion{"nodes=2 tasks=5 pernode=3 task=gpu:1", "6-6  x1", "5-5  x1"},         // 5, 5
        CountedByVersion{"nodes=2 tasks=5 pernode=3 cpus=2 task=gpu:1", "6-6  x1", "5-5  x1"},  // 5, 5
        CountedByVersion{"nodes=2 tasks=5 pernode=3 cpus=3 task=gpu:1", "6-6  x1", "6-6  x1"},  // 5, 6
        CountedByVersion{"nodes=2 tasks=5 pernode=3 cpus=8 task=gpu:1", "6-6  x1", "5-5  x1"},
        CountedByVersion{"nodes=2 tasks=7 pernode=4 task=gpu:1", "8-8  x1", "8-8  x1"},               // 7, 8
        CountedByVersion{"nodes=2 tasks=5 pernode=3 cpus-per-gpu task=gpu:1", "6-6  x1", "6-6  x1"},  // 6, 5
        CountedByVersion{"nodes=2 tasks=5 pernode=3 bind task=gpu:1", "6-6  x1", "6-6  x1"},          // 6, 5
        CountedByVersion{"nodes=2 tasks=5 pernode=3 percore=2 task=gpu:1", "6-6  x1", "6-6  x1"},
        CountedByVersion{"nodes=2 tasks=5 pernode=3 percore=1 task=gpu:1", "6-6  x1", "5-5  x1"},
        CountedByVersion{"nodes=2 tasks=5 pernode=3 overcommit task=gpu:1", "6-6  x1", "6-6  x1"},
        CountedByVersion{"nodes=2-4 tasks=5 pernode=3 task=gpu:a100:1", "12-12 a100 x1", "5-5 a100 x1"},  // 5, 5
        CountedByVersion{"tasks=5 pernode=3 task=gpu:1", "6-6  x1@2", "5-5  x1"},                         // 5, 5
        CountedByVersion{"nodes=2 tasks=6 pernode=3 task=gpu:1", "6-6  x1", "6-6  x1"},                   // 6, 6
        CountedByVersion{"nodes=2 pernode=3 task=gpu:2", "12-12  x2", "12-12  x2"},                       // 12, 12
        CountedByVersion{"nodes=2 tasks=40000 pernode=30000 task=gpu:1", "60000-60000  x1", "60000-60000  x1"}));

struct Uncounted {
  const char* sent;
  const char* says;
};
class Refused : public testing::TestWithParam<Uncounted> {};

TEST_P(Refused, where_the_number_cannot_be_said) {
  const auto got = count_gpus(sent(GetParam().sent), SiteConfig(), kFilled);
  ASSERT_FALSE(got) << GetParam().sent;
  EXPECT_NE(got.error().text.find(GetParam().says), std::string::npos) << got.error().text;
  EXPECT_NE(got.error().text.find(";"), std::string::npos) << "what is allowed: " << got.error().text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Refused,
    testing::Values(
        Uncounted{"tasks=4 node=gpu:2", "4 tasks may get 1 to 4 nodes"},
        Uncounted{"tasks=4 min=2 node=gpu:2", "--nodes=N"}, Uncounted{"socket=gpu:1", "needs --sockets-per-node"},
        Uncounted{"pergpu=2", "--ntasks-per-gpu=2 alone does not say"},
        Uncounted{"job=gpu:a100:1,gpu:h100:1", "several types"}, Uncounted{"job=gpu:1,gpu:h100:1", "several types"},
        Uncounted{"job=gpu:a100:1 node=gpu:h100:1", "'a100' and 'h100'"}, Uncounted{"node=shard:1", "parts of GPUs"},
        Uncounted{"node=gres:mps:50", "parts of GPUs"}, Uncounted{"job=gpu:99999999999999999999", "a whole number"},
        Uncounted{"job=gpu:2k", "a whole number"}, Uncounted{"job=gpu:a/b:1", "is not a GPU type"},
        Uncounted{"job=gpu:a:b:1", "is not a GPU type"}, Uncounted{"job=gpu:-1", "is not a GPU type"},
        Uncounted{"nodes=4000000000 node=gpu:1000000", "asks for"},
        Uncounted{"tasks=4294967293 task=gpu:1000000", "asks for"}, Uncounted{"exclusive", "dl.toml does not say"},
        Uncounted{"exclusive=user job=gpu:1", "keep other users off GPUs"},
        Uncounted{"exclusive=user", "keep other users off GPUs"}));

TEST(GpuType, is_put_into_requests_without_one) {
  EXPECT_EQ(with_gpu_type("gres:gpu:2", "a100"), "gres:gpu:a100:2");
  EXPECT_EQ(with_gpu_type("gres/gpu=2", "a100"), "gres/gpu:a100=2");
  EXPECT_EQ(with_gpu_type("gpu", "a100"), "gpu:a100");
  EXPECT_EQ(with_gpu_type("gres:lustre:1,gres:gpu:h100:2", "a100"), "gres:lustre:1,gres:gpu:h100:2");
}

struct Asked {
  std::string words;
  JobRequest request;
  bool allowed = true;
  bool slurm_limits_users = false;
};

Result<Ruling> rule(const Asked& asked, const SiteConfig& site = site_of()) {
  const Submission given = sent(asked.words);
  DL_TRY_ASSIGN(const GpuCount gpus, count_gpus(given, site, kFilled));
  const policy::ClusterState state = policy::state_of(site);
  return rule_job({site, state, asked.request, given, gpus, asked.allowed, asked.slurm_limits_users, 1000});
}

JobRequest request(std::optional<Tier> tier = {}, bool checkpoint = false) {
  JobRequest wanted;
  wanted.tier = tier;
  if (checkpoint) wanted.checkpoint.emplace();
  wanted.environment.emplace_back("DL_TIER", "x");
  return wanted;
}

TEST(Rules, charge_a_job_within_quota_as_own_and_write_it_down) {
  auto got = rule({"account=Vision job=gpu:a100:10 licences=matlab:1", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->account, "vision");
  EXPECT_EQ(got->licences, "matlab:1,dl_vision/a100:8,dl_vision:2");
  EXPECT_EQ(got->label,
            "dl:1 tenant=vision tier=auto learners=10 gpus=1 type=a100 pausable=0 back=requeue placement=pack "
            "charge=own");
  EXPECT_EQ(got->message.find("dl: tenant vision: 10 GPUs of its own, or borrowed while"), 0U) << got->message;
  EXPECT_EQ(got->gpu_type, "");
  got = rule({"account=vision nodes=2 node=gpu:a100:4", request({}, true)});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->label,
            "dl:1 tenant=vision tier=auto learners=2 gpus=4 type=a100 nodes=2:2 pausable=1 placement=pack charge=own");
  EXPECT_EQ(got->message, "dl: tenant vision: 8 GPUs of its own");
}

TEST(Rules, borrow_what_exceeds_the_quota_or_asks_for_it) {
  auto got = rule({"account=vision nodes=1 node=gpu:h100:3", request(Tier::kBorrow)});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->charge, policy::Charge::kBorrowed);
  EXPECT_EQ(got->licences, "dl_vision/borrow:3");
  EXPECT_NE(got->label.find(" tier=borrow "), std::string::npos);
  EXPECT_NE(got->label.find(" charge=borrowed"), std::string::npos);
  got = rule({"account=vision job=gpu:h100:5", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->licences, "dl_vision/borrow:5");
  EXPECT_EQ(got->message,
            "dl: tenant vision: 5 GPUs borrowed, to be given back when their owner needs them: the job cannot save, so "
            "it then goes back into the queue within 2m and begins anew; with --dl-checkpoint it would go on where it "
            "was");
  EXPECT_NE(got->label.find(" pausable=0 back=requeue "), std::string::npos) << got->label;
  got = rule({"account=guest job=gpu:a100:1", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->licences, "") << "no limit, no token";
  // More than may be borrowed: what exceeds that has to be within the quota.
  got = rule({"account=vision job=gpu:h100:9", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->charge, policy::Charge::kBorrowed);
  EXPECT_EQ(got->licences, "dl_vision:3,dl_vision/borrow:6");
  EXPECT_NE(got->label.find(" charge=borrowed own=3"), std::string::npos) << got->label;
}

// What is told is kept in the label, which is what dlpolicyd goes by.
TEST(Rules, tell_a_borrower_what_becomes_of_it) {
  struct Row {
    const char* sent;
    bool checkpoint;
    const char* told;
    const char* label;
  };
  const Row rows[] = {
      {"account=vision job=gpu:h100:5", false, "goes back into the queue within 2m and begins anew",
       " pausable=0 back=requeue "},
      {"account=vision job=gpu:h100:5 requeue=1", false, "goes back into the queue within 2m and begins anew",
       " pausable=0 back=requeue "},
      {"account=vision job=gpu:h100:5 requeue=0", false,
       "can neither save nor go back into the queue, so it is then ended within 2m", " pausable=0 back=end "},
      {"account=vision job=gpu:h100:5 srun", false, "so it is then ended within 2m", " pausable=0 back=end "},
      {"account=vision job=gpu:h100:5 srun requeue=1", true, "so it is then ended within 2m", " pausable=0 back=end "},
      {"account=vision job=gpu:h100:5", true, "the job is then asked to save, and goes back into the queue within 2m",
       " pausable=1 placement="},
  };
  for (const Row& row : rows) {
    const auto got = rule({row.sent, request({}, row.checkpoint)});
    ASSERT_TRUE(got) << got.error().text;
    EXPECT_NE(got->message.find(row.told), std::string::npos) << got->message;
    EXPECT_NE(got->label.find(row.label), std::string::npos) << got->label;
  }
}

// Without a type a job could be charged to one type and run on another.
TEST(Rules, keep_a_request_without_a_type_from_slipping_past_typed_quotas) {
  auto got = rule({"account=vision job=gpu:4", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->licences, "dl_vision:4");
  EXPECT_EQ(got->gpu_type, "");
  got = rule({"account=vision job=gpu:5", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->licences, "dl_vision/a100:5");
  EXPECT_EQ(got->gpu_type, "a100");
  EXPECT_NE(got->label.find(" type=a100 "), std::string::npos);
  EXPECT_EQ(got->message.find("dl: tenant vision: 5 GPUs of type a100 of its own, or borrowed while"), 0U)
      << got->message;
  got = rule({"account=nlp job=gpu:2", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->gpu_type, "h100");
  EXPECT_EQ(got->licences, "dl_nlp/h100:2");
  got = rule({"account=nlp job=gpu:7", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->charge, policy::Charge::kBorrowed);
  EXPECT_EQ(got->gpu_type, "");
  // An exclusive job that names no GPUs has no request to put the type into.
  got = rule({"account=vision exclusive", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->licences, "dl_vision:2,dl_vision/borrow:6") << "8 GPUs of any type: 4 of its own, 6 to borrow";
}

TEST(Rules, bound_a_range_of_nodes_by_what_may_be_held) {
  auto got = rule({"account=vision nodes=1-4 node=gpu:a100:5", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->max_nodes, 2U) << "10 of 12";
  EXPECT_EQ(got->licences, "dl_vision/a100:8,dl_vision:2");
  EXPECT_EQ(got->message.find("dl: tenant vision: 5 to 10 GPUs of its own (asked for up to 20), or borrowed while"), 0U)
      << got->message;
  EXPECT_NE(got->label.find(" learners=1:4 gpus=5 "), std::string::npos) << got->label;
  EXPECT_NE(got->label.find(" nodes=1:4 "), std::string::npos) << got->label;
  got = rule({"account=vision nodes=1-4 node=gpu:h100:3", request(Tier::kBorrow)});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->max_nodes, 2U);
  EXPECT_EQ(got->licences, "dl_vision/borrow:6");
  got = rule({"account=guest nodes=1-4 node=gpu:h100:2", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->max_nodes, 2U) << "what one user may have";
  got = rule({"account=vision node=gpu:a100:2", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->max_nodes, 1U);
  EXPECT_EQ(got->min_nodes, 1U);
}

struct Denied {
  const char* words;
  std::optional<Tier> tier;
  Errc code;
  const char* says;
};
class Denials : public testing::TestWithParam<Denied> {};

TEST_P(Denials, say_the_number_that_was_exceeded_or_what_is_allowed) {
  const Denied& p = GetParam();
  const auto got = rule({p.words, p.tier ? request(p.tier) : JobRequest()});
  ASSERT_FALSE(got) << p.words;
  EXPECT_EQ(got.error().code, p.code) << got.error().text;
  EXPECT_NE(got.error().text.find(p.says), std::string::npos) << got.error().text;
  EXPECT_EQ(got.error().text.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Denials,
    testing::Values(Denied{"job=gpu:1",
                           {},
                           Errc::kDenied,
                           "this job has no account; allowed: --account=NAME with one of guest, nlp, vision"},
                    Denied{"account=root job=gpu:1", {}, Errc::kDenied, "account 'root' is not a tenant"},
                    Denied{"account=vision job=gpu:v100:1",
                           {},
                           Errc::kNoSpace,
                           "GPU type 'v100' is not one of this cluster's; allowed: a100, h100"},
                    Denied{"account=vision job=gpu:a100:15",
                           {},
                           Errc::kNoSpace,
                           "15 GPUs exceed what one job of tenant 'vision' may have, 14"},
                    Denied{"account=vision job=gpu:h100:11",
                           {},
                           Errc::kNoSpace,
                           "exceed the quota of 4; tenant 'vision' may borrow 6"},
                    Denied{"account=vision job=gpu:h100:5", Tier::kGuaranteed, Errc::kNoSpace,
                           "exceeds the quota of tenant 'vision', 4 GPUs"},
                    Denied{"account=vision job=gpu:a100:7", Tier::kBorrow, Errc::kNoSpace,
                           "are asked for as borrowed; tenant 'vision' may borrow 6"},
                    Denied{"account=vision nodes=1 node=gpu:a100:9",
                           {},
                           Errc::kNoSpace,
                           "a learner with 9 GPUs of type 'a100' fits on no node; the largest has 8"},
                    Denied{"account=guest job=gpu:a100:5",
                           {},
                           Errc::kNoSpace,
                           "5 GPUs exceed what one user of tenant 'guest' may have, 4"},
                    Denied{"account=nlp job=gpu:h100:13", {}, Errc::kNoSpace, "hold 12 such learners, 12 GPUs"}));

TEST(Rules, let_a_job_begin_later_where_only_dlpolicyd_knows_what_else_its_user_runs) {
  auto got = rule({"account=guest job=gpu:a100:2", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->begin_s, 1000 + kUserGateS);
  Asked asked{"account=guest job=gpu:a100:2", {}};
  asked.slurm_limits_users = true;
  EXPECT_FALSE(rule(asked)->begin_s);
  EXPECT_FALSE(rule({"account=vision job=gpu:a100:2", {}})->begin_s);  // no limit
}

// dlpolicyd may lend to it what its tenant's quota has not left.
TEST(Rules, tell_a_job_that_may_be_borrowed_later) {
  auto got = rule({"account=vision job=gpu:a100:1", {}});
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->message,
            "dl: tenant vision: 1 GPU of its own, or borrowed while its quota is in use, to be given back when their "
            "owner needs them: the job cannot save, so it then goes back into the queue within 2m and begins anew; "
            "with --dl-checkpoint it would go on where it was");
  EXPECT_EQ(rule({"account=vision job=gpu:a100:1", request({}, true)})->message, "dl: tenant vision: 1 GPU of its own");
  EXPECT_EQ(rule({"account=vision job=gpu:a100:1", request(Tier::kGuaranteed)})->message,
            "dl: tenant vision: 1 GPU of its own");
  const SiteConfig none = site_of("[tenants.alone]\nquota = { a100 = 8 }\nborrow_limit = 0\n");
  EXPECT_EQ(rule({"account=alone job=gpu:a100:1", {}}, none)->message, "");
}

TEST(Rules, take_images_by_digest_where_the_tenant_wants_that) {
  const SiteConfig site =
      site_of("[tenants.strict]\nquota = { a100 = 8 }\nimage_digests = true\nimages = [\"/images/*.sif\"]\n");
  JobRequest wanted;
  wanted.image = "/images/a.sif";
  auto got = rule({"account=strict job=gpu:a100:1", wanted}, site);
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().text.find("PATH@sha256:DIGEST"), std::string::npos) << got.error().text;
  wanted.image = "/images/a.sif@sha256:" + std::string(64, '1');
  got = rule({"account=strict job=gpu:a100:1", wanted}, site);
  EXPECT_TRUE(got) << got.error().text;
  wanted.image = "/tmp/a.sif@sha256:" + std::string(64, '1');
  EXPECT_FALSE(rule({"account=strict job=gpu:a100:1", wanted}, site));
}

TEST(Rules, ask_for_a_pausable_job_where_the_site_wants_that_for_borrowing) {
  const SiteConfig site = site_of("[quota]\nrequire_pausable = true\n");
  const std::string words = "account=vision job=gpu:h100:5";
  auto got = rule({words, {}}, site);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::kConflict);
  EXPECT_NE(got.error().text.find("--dl-checkpoint, or up to 4 GPUs of tenant 'vision' itself"), std::string::npos)
      << got.error().text;
  EXPECT_TRUE(rule({words, request({}, true)}, site));
  EXPECT_FALSE(rule({words + " srun", request({}, true)}, site)) << "an interactive job cannot come back";
  EXPECT_TRUE(rule({"account=vision job=gpu:h100:4", {}}, site)) << "its own";
}

TEST(Rules, hold_frameworks_images_and_users_to_what_the_tenant_allows) {
  JobRequest wanted = request();
  wanted.framework = FrameworkRef{"jax", ""};
  auto got = rule({"account=nlp job=gpu:h100:1", wanted});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().text,
            "framework 'jax' is not one of tenant 'nlp'; allowed: --dl-framework with generic, pytorch");
  EXPECT_TRUE(rule({"account=vision job=gpu:a100:1", wanted}));
  wanted.framework.reset();
  for (const char* good : {"/images/a.sif", "/images//./a.sif"}) {
    wanted.image = good;
    EXPECT_TRUE(rule({"account=nlp job=gpu:h100:1", wanted})) << good;
  }
  for (const char* bad : {"/images/x/a.sif", "/images/../home/a.sif", "a.sif", "/home/images/a.sif", "/images/a.sif/..",
                          "/images/.a.sif", "../images/a.sif"}) {
    wanted.image = bad;
    got = rule({"account=nlp job=gpu:h100:1", wanted});
    ASSERT_FALSE(got) << bad;
    EXPECT_NE(got.error().text.find("allowed: /images/*.sif"), std::string::npos) << got.error().text;
  }
  got = rule({"account=vision job=gpu:a100:1", {}, false});
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().text.find("not one of tenant 'vision'"), std::string::npos) << got.error().text;
}

TEST(Rules, of_a_site_with_one_type_need_no_type) {
  auto config = parse_site_config("[nodes]\ngpus_per_node = 2\n[tenants.a]\nquota = 4\n", "dl.toml");
  ASSERT_TRUE(config);
  auto got = rule({"account=a job=gpu:4", {}}, *config);
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->licences, "dl_a:4");
  EXPECT_EQ(got->gpu_type, "");
  EXPECT_EQ(got->label.find("type="), std::string::npos);
}

TEST(Licences, that_stand_for_gpus_cannot_be_asked_for) {
  EXPECT_TRUE(check_licences(""));
  EXPECT_TRUE(check_licences("matlab:2"));
  const Status forged = check_licences("matlab,dl_nlp/a100:2");
  ASSERT_FALSE(forged);
  EXPECT_EQ(forged.error().code, Errc::kDenied);
}

TEST(Licences, that_slurm_does_not_have_yet_are_named_with_what_makes_them) {
  EXPECT_TRUE(check_declared("", ""));
  EXPECT_TRUE(check_declared("matlab:1,dl_nlp:2", "dl_nlp:4,dl_nlp/borrow:2"));
  EXPECT_TRUE(check_declared("matlab:1", "")) << "Slurm itself says so";
  const Status missing = check_declared("dl_nlp:1,dl_nlp/borrow:2", "dl_nlp:4,matlab:2");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text.rfind("slurm.conf does not have the licence 'dl_nlp/borrow'", 0), 0U);
  EXPECT_NE(missing.error().text.find("dlctl quota sync"), std::string::npos);
}

TEST(Guard, keeps_what_a_tenant_is_charged_for_as_it_was_submitted) {
  const SiteConfig site = site_of();
  struct Row {
    bool Change::*field;
    const char* says;
  };
  const Row rows[] = {{&Change::licences, "a job's licences cannot"},
                      {&Change::account, "a job's account cannot"},
                      {&Change::admin_comment, "a job's admin comment cannot"},
                      {&Change::nodes, "a job's number of nodes"},
                      {&Change::tasks, "a job's number of tasks"},
                      {&Change::gpus, "a job's GPUs"},
                      {&Change::exclusive, "a job's use of whole nodes"}};
  for (const Row& row : rows) {
    Change change;
    change.*row.field = true;
    const Status got = check_change(site, change);
    ASSERT_FALSE(got) << row.says;
    EXPECT_EQ(got.error().code, Errc::kDenied);
    EXPECT_EQ(got.error().text.rfind(row.says, 0), 0U) << got.error().text;
    EXPECT_TRUE(check_change(SiteConfig(), change)) << "no tenants, no guard";
  }
  Change other;
  other.partition = "other";
  EXPECT_FALSE(check_change(site, other));
  SiteConfig open = site;
  open.tiers_locked = false;
  EXPECT_TRUE(check_change(open, other));
  EXPECT_TRUE(check_change(site, Change()));
}

TEST(Guard, lets_no_user_open_a_gate_before_dlpolicyd_has_seen_it) {
  const SiteConfig site = site_of();
  Change change;
  EXPECT_EQ(least_begin(site, change, 1000), std::nullopt) << "the begin time is not changed";
  for (const int64_t begin_s : {1, 999, 1000, 1002}) {
    change.begin_s = begin_s;
    EXPECT_EQ(least_begin(site, change, 1000), 1003) << begin_s;
  }
  EXPECT_EQ(least_begin(SiteConfig(), change, 1000), std::nullopt) << "no tenants, no gates";
  change.begin_s = 1003;
  EXPECT_EQ(least_begin(site, change, 1000), std::nullopt);
}

TEST(OwnNetwork, IsRefusedWhereTheNodesCannotKeepIt) {
  const auto site = [](const std::string& network) {
    auto config = parse_site_config(
        network + "[tenants.open]\nquota = 1\n[tenants.sealed]\nquota = 1\nnetwork = \"job\"\n", "dl.toml");
    EXPECT_TRUE(config) << config.error().text;
    return *config;
  };
  const SiteConfig can = site("[network]\nenforce = \"nftables\"\n"), cannot = site("");
  EXPECT_FALSE(*must_be_alone(can, -1));
  EXPECT_FALSE(*must_be_alone(can, 0));
  EXPECT_TRUE(*must_be_alone(can, 1));
  EXPECT_FALSE(*must_be_alone(cannot, 0));
  ASSERT_FALSE(must_be_alone(cannot, 1));
  EXPECT_NE(must_be_alone(cannot, 1).error().text.find("tenant 'sealed' requires network = \"job\""),
            std::string::npos);
}

}  // namespace
}  // namespace dl
