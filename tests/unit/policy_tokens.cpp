// SPDX-License-Identifier: Apache-2.0
// What slurmctld counts for a tenant, what is written down about a job, and the configuration as the policy sees it.
#include <gtest/gtest.h>

#include "slurm-plugin/policy/admission.h"
#include "slurm-plugin/policy/job_label.h"
#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/policy/tokens.h"
#include "tests/unit/policy_support.h"

namespace dl::policy::testing {
namespace {

using Licences = std::vector<Licence>;

ClusterState site(const std::string& text) {
  auto config = parse_site_config(text, "dl.toml");
  EXPECT_TRUE(config) << config.error().text;
  return state_of(*config);
}

ClusterState two_types() {
  return site(R"(
    [nodes]
    types = { a100 = 8, h100 = 4 }
    counts = { a100 = 2, h100 = 3 }
    [tenants.vision]
    quota = { any = 4, a100 = 8 }
    borrow_limit = 6
    group = "x"
    [tenants.nlp]
    quota = 2
    lend = 1
    group = "x"
    [tenants.guest]
    quota = 0
    borrow_limit = 0
  )");
}

TEST(SiteState, holds_types_tenants_and_nodes) {
  const ClusterState state = two_types();
  ASSERT_TRUE(check(state));
  EXPECT_EQ(state.types, (std::vector<std::string>{"a100", "h100"}));
  ASSERT_EQ(state.nodes.size(), 5U);
  EXPECT_TRUE(state.nodes_known);
  EXPECT_EQ(state.nodes[2].name, "h100-1");
  EXPECT_EQ(state.nodes[2].gpus, 4);
  ASSERT_EQ(state.tenants.size(), 3U);
  EXPECT_EQ(tenant_index(state, "VISION"), 2);
  EXPECT_EQ(tenant_index(state, "root"), std::nullopt);
  const Tenant& vision = state.tenants[2];
  EXPECT_EQ(vision.quota.of(0), 8);
  EXPECT_EQ(vision.quota.of(1), 0);
  EXPECT_EQ(vision.quota.any, 4);
  EXPECT_EQ(vision.borrow_limit, 6);
  EXPECT_EQ(vision.group, state.tenants[1].group);
  EXPECT_EQ(state.tenants[0].group, kNobody);
  EXPECT_EQ(state.tenants[1].lend->any, 1);
  EXPECT_EQ(state.tenants[1].borrow_limit, kNoLimit);
  EXPECT_EQ(type_index(state, ""), kAnyType);
  EXPECT_EQ(type_index(state, "h100"), 1);
  EXPECT_EQ(type_index(state, "v100"), std::nullopt);
  EXPECT_TRUE(oversubscribed(state).empty());
}

TEST(SiteState, without_types_has_one_and_without_counts_knows_no_nodes) {
  const ClusterState plain = site("[nodes]\ngpus_per_node = 2\n[nodes.counts]\ngpu = 3\n[tenants.a]\nquota = 8\n");
  EXPECT_EQ(plain.types, (std::vector<std::string>{"gpu"}));
  EXPECT_EQ(plain.nodes.size(), 3U);
  EXPECT_EQ(oversubscribed(plain).size(), 1U);
  const ClusterState unknown = site("[nodes]\ntypes = { a = 2, b = 2 }\ncounts = { a = 3 }\n[tenants.a]\nquota = 8\n");
  EXPECT_FALSE(unknown.nodes_known);
  EXPECT_TRUE(unknown.nodes.empty());
  Job job;
  job.min_learners = job.max_learners = 8;
  EXPECT_TRUE(admit(unknown, job).admitted());
  job.min_learners = job.max_learners = 9;
  EXPECT_TRUE(admit(unknown, job).admitted()) << "borrowed: how much there is to borrow is not known";
  job.tier = Tier::kGuaranteed;
  const Admission refused = admit(unknown, job);
  EXPECT_EQ(refused.excess, Excess::kQuota);
  EXPECT_EQ(refused.allowed, 8);
}

TEST(Tokens, have_names_that_are_read_back) {
  EXPECT_EQ(own_token("vision"), "dl_vision");
  EXPECT_EQ(own_token("vision", "a100"), "dl_vision/a100");
  EXPECT_EQ(borrow_token("vision"), "dl_vision/borrow");
  auto token = parse_token("dl_a.b/c.d");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->tenant, "a.b");
  EXPECT_EQ(token->type, "c.d");
  EXPECT_FALSE(token->borrow);
  EXPECT_TRUE(parse_token("dl_a/borrow")->borrow);
  EXPECT_EQ(parse_token("dl_a")->type, "");
  for (const char* other :
       {"", "dl_", "matlab", "dl_/", "dl_//a100", "dl_a/", "dl_a/any", "dl_a/b/c", "DL_a", "dl_a b"})
    EXPECT_FALSE(parse_token(other)) << other;
}

TEST(Tokens, have_totals_for_slurm_conf) {
  EXPECT_EQ(token_totals(two_types()),
            (Licences{{"dl_nlp", 2}, {"dl_vision", 4}, {"dl_vision/a100", 8}, {"dl_vision/borrow", 6}}));
}

TEST(Tokens, of_an_own_job_are_typed_first) {
  const ClusterState state = two_types();
  const int vision = *tenant_index(state, "vision");
  const auto held = [&](int type, int gpus, Charge charge, std::optional<TokensLeft> left = std::nullopt) {
    const auto tokens = tokens_for(state, vision, type, gpus, charge, left ? &*left : nullptr);
    return tokens ? format_licences(*tokens) : "none";
  };
  EXPECT_EQ(held(0, 3, Charge::kOwn), "dl_vision/a100:3");
  EXPECT_EQ(held(0, 10, Charge::kOwn), "dl_vision/a100:8,dl_vision:2");
  EXPECT_EQ(held(0, 12, Charge::kOwn), "dl_vision/a100:8,dl_vision:4");
  EXPECT_EQ(held(0, 13, Charge::kOwn), "none");
  EXPECT_EQ(held(1, 4, Charge::kOwn), "dl_vision:4");
  EXPECT_EQ(held(1, 5, Charge::kOwn), "none");
  EXPECT_EQ(held(kAnyType, 4, Charge::kOwn), "dl_vision:4");
  EXPECT_EQ(held(kAnyType, 5, Charge::kOwn), "none") << "a request without a type would slip past the typed quota";
  EXPECT_EQ(held(0, 6, Charge::kBorrowed), "dl_vision/borrow:6");
  EXPECT_EQ(held(0, 7, Charge::kBorrowed), "none");
  const auto in_part = [&](int gpus, int own) {
    const auto tokens = tokens_for(state, vision, 0, gpus, Charge::kBorrowed, nullptr, own);
    return tokens ? format_licences(*tokens) : "none";
  };
  EXPECT_EQ(in_part(9, 3), "dl_vision/a100:3,dl_vision/borrow:6");
  EXPECT_EQ(in_part(12, 10), "dl_vision/a100:8,dl_vision:2,dl_vision/borrow:2");
  EXPECT_EQ(in_part(9, 2), "none") << "more than may be borrowed";
  EXPECT_EQ(least_own_part(state, vision, Tier::kAuto, 9), 3);
  EXPECT_EQ(least_own_part(state, vision, Tier::kAuto, 6), 0);
  EXPECT_EQ(least_own_part(state, vision, Tier::kBorrow, 9), 0);
  TokensLeft left(state);
  left.tenants[vision] = GpuCounts{{1, 0}, 2};
  EXPECT_EQ(held(0, 3, Charge::kOwn, left), "dl_vision/a100:1,dl_vision:2");
  EXPECT_EQ(held(0, 4, Charge::kOwn, left), "none");
  const int nlp = *tenant_index(state, "nlp");
  EXPECT_TRUE(tokens_for(state, nlp, 0, 100, Charge::kBorrowed)->empty()) << "no limit";
  EXPECT_FALSE(tokens_for(state, *tenant_index(state, "guest"), 0, 1, Charge::kBorrowed));
}

TEST(Licences, are_read_however_slurm_writes_them) {
  EXPECT_EQ(parse_licences("a:2,b"), (Licences{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(parse_licences("a=2;b*3"), (Licences{{"a", 2}, {"b", 3}}));
  EXPECT_EQ(parse_licences(" a , ,:3,b:0,c:x,d:99999999999999999999,e:1"), (Licences{{"a", 1}, {"e", 1}}));
  EXPECT_EQ(parse_licences(""), Licences{});
  EXPECT_EQ(format_licences({{"a", 2}, {"b", 1}}), "a:2,b:1");
}

TEST(Licences, of_ours_are_found_in_what_a_user_gives_however_it_is_written) {
  for (const char* forged : {"dl_nlp:4", "dl_nlp", "x,dl_nlp/a100=1", "x:1;dl_nlp", "a|dl_nlp", " dl_nlp", "x\tdl_a",
                             "DL_nlp:1", "(a|dl_b)", "x,\ndl_b", "dl_b@server"})
    EXPECT_TRUE(names_token(forged)) << forged;
  for (const char* fine : {"", "matlab:2", "xdl_a", "matlab@dl_server", "dl-x", "d,l_"})
    EXPECT_FALSE(names_token(fine)) << fine;
  EXPECT_EQ(without_tokens("matlab:2,dl_a:1, dl_b ,x"), "matlab:2,x");
  EXPECT_EQ(with_tokens("matlab:2", "dl_a:1"), "matlab:2,dl_a:1");
  EXPECT_EQ(with_tokens("", "dl_a:1"), "dl_a:1");
  EXPECT_EQ(with_tokens("matlab", ""), "matlab");
}

JobLabel full_label() {
  JobLabel label;
  label.tenant = "vision";
  label.tier = Tier::kBorrow;
  label.learners = {2, 4};
  label.gpus = 2;
  label.type = "a100";
  label.min_nodes = 1;
  label.max_nodes = 2;
  label.pausable = true;
  label.placement = Placement::kSpread;
  label.charge = Charge::kBorrowed;
  label.begin_s = 1795351615;
  label.yields = Yield{17, 1795351700, 2};
  label.note = "by lua: x=1 | y";
  return label;
}

TEST(JobLabels, are_read_back_as_written) {
  const std::string full =
      "dl:1 tenant=vision tier=borrow learners=2:4 gpus=2 type=a100 nodes=1:2 pausable=1 placement=spread "
      "charge=borrowed begin=1795351615 yields=17@1795351700:2 | by lua: x=1 | y";
  EXPECT_EQ(format_label(full_label()), full);
  const auto got = parse_label(full);
  ASSERT_TRUE(got);
  EXPECT_EQ(format_label(*got), full);
  EXPECT_EQ(got->note, "by lua: x=1 | y");
  EXPECT_EQ(got->yields, full_label().yields);
  JobLabel batched = full_label();
  batched.batch = BatchRange{16, 64, 4, BatchRule::kSqrt, 8};
  EXPECT_NE(format_label(batched).find(" batch=16:64:4,rule=sqrt,micro=8 "), std::string::npos)
      << format_label(batched);
  ASSERT_TRUE(parse_label(format_label(batched)));
  EXPECT_EQ(parse_label(format_label(batched))->batch, batched.batch);
  JobLabel small;
  small.tenant = "nlp";
  const std::string shortest = "dl:1 tenant=nlp tier=auto learners=1 gpus=1 pausable=0 placement=pack charge=own";
  EXPECT_EQ(format_label(small), shortest);
  ASSERT_TRUE(parse_label(shortest));
  EXPECT_EQ(format_label(*parse_label(shortest)), shortest);
}

// Slurm takes --begin=2200-01-01. A label that could not be read would be a foreign job's, which is charged to nobody.
TEST(JobLabels, have_dates_beyond_2106) {
  JobLabel label = full_label();
  for (const int64_t begin_s : {int64_t{1} << 32, int64_t{7'258'118'400}, int64_t{253'402'300'799}, kFarthestS}) {
    label.begin_s = label.queued_s = begin_s;
    label.yields = Yield{17, begin_s, 2};
    const auto got = parse_label(format_label(label));
    ASSERT_TRUE(got) << begin_s;
    EXPECT_EQ(got->begin_s, begin_s);
    EXPECT_EQ(format_label(*got), format_label(label));
  }
}

TEST(JobLabels, of_a_later_version_are_read_without_what_is_not_known) {
  const auto got = parse_label(
      "dl:1 tenant=nlp colour=red tier=auto learners=1 gpus=1 pausable=0 placement=pack charge=own later=1:2@3");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->tenant, "nlp");
}

TEST(JobLabels, that_are_unreadable_are_a_foreign_jobs) {
  const std::string good = "dl:1 tenant=nlp tier=auto learners=1 gpus=1 pausable=0 placement=pack charge=own";
  for (const char* bad : {"", "dl:1", "dl:2 tenant=nlp", "hello", "dl:1 ", "dl:1 tenant=nlp", "dl:10 tenant=nlp"})
    EXPECT_FALSE(parse_label(bad)) << bad;
  for (const char* more : {" tenant=vision", " type=", " type=a/b", " nodes=1", " nodes=2:1", " nodes=-1:2", " begin=x",
                           " begin=0", " yields=1", " yields=1@2", " yields=0@1:1", " yields=1@x:1", " yields=1@1:-1",
                           " yields=:@", " word", " charge=own"})
    EXPECT_FALSE(parse_label(good + more)) << more;
  const std::pair<const char*, const char*> changes[] = {
      {"tenant=nlp", "tenant=n/p"},   {"tier=auto", "tier=free"},   {"learners=1", "learners=0"},
      {"learners=1", "learners=3:2"}, {"gpus=1", "gpus=0"},         {"gpus=1", "gpus=1025"},
      {"gpus=1", "gpus=+1"},          {"pausable=0", "pausable=2"}, {"=pack", "=heap"},
      {"charge=own", "charge=me"},    {"gpus=1", "gpus="},          {"gpus=1", ""}};
  for (const auto& [from, to] : changes) {
    std::string text = good;
    text.replace(text.find(from), std::string(from).size(), to);
    EXPECT_FALSE(parse_label(text)) << text;
  }
  EXPECT_FALSE(parse_label(good + " x=" + std::string(10'000, 'y')));
}

// Whatever bytes stand there: nothing, or a label that is written and read back to itself.
TEST(JobLabels, survive_random_damage) {
  const std::string full = format_label(full_label());
  Dice dice(7);
  int readable = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text = full;
    for (int n = dice.from(1, 3); n > 0; --n) {
      const size_t at = static_cast<size_t>(dice.from(0, static_cast<int>(text.size()) - 1));
      switch (dice.from(0, 2)) {
        case 0:
          text[at] = static_cast<char>(dice.from(0, 255));
          break;
        case 1:
          text.erase(at, static_cast<size_t>(dice.from(1, 20)));
          break;
        default:
          text.insert(at, 1, " =:@|0"[dice.from(0, 5)]);
          break;
      }
      if (text.empty()) text = " ";
    }
    const auto got = parse_label(text);
    if (!got) continue;
    ++readable;
    const std::string again = format_label(*got);
    ASSERT_TRUE(parse_label(again)) << again;
    ASSERT_EQ(format_label(*parse_label(again)), again);
  }
  EXPECT_GT(readable, 1000);
}

TEST(JobLabels, keep_what_somebody_else_wrote) {
  JobLabel label;
  label.tenant = "nlp";
  const std::string first = with_label("", label);
  EXPECT_EQ(first.find('|'), std::string::npos);
  const std::string noted = with_label("by lua", label);
  EXPECT_EQ(parse_label(noted)->note, "by lua");
  label.charge = Charge::kBorrowed;
  const std::string again = with_label(noted, label);
  EXPECT_EQ(parse_label(again)->charge, Charge::kBorrowed);
  EXPECT_EQ(parse_label(again)->note, "by lua");
}

TEST(JobLabels, say_how_much_of_a_borrowed_job_is_own) {
  JobLabel label;
  label.tenant = "nlp";
  label.charge = Charge::kBorrowed;
  EXPECT_EQ(format_label(label).find(" own="), std::string::npos);
  label.own_part = 8;
  EXPECT_EQ(parse_label(format_label(label))->own_part, 8);
}

}  // namespace
}  // namespace dl::policy::testing
