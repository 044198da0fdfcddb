// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "common/base/parse.h"
#include "common/contract/batch_range.h"
#include "common/contract/batch_split.h"

namespace dl {
namespace {

BatchRange range_of(const std::string& text) {
  auto range = parse_batch(text);
  EXPECT_TRUE(range) << text;
  return range ? *range : BatchRange{};
}

BatchSplit split_of(const std::string& text, int least, int learners) {
  const BatchRange range = range_of(text);
  auto split = split_batch(range, learners, batch_target(range, least, learners));
  EXPECT_TRUE(split) << text << " over " << learners;
  return split ? *split : BatchSplit{};
}

TEST(Batch, is_a_range_with_a_multiple_a_rule_and_a_most_at_once) {
  const BatchRange plain = range_of("16:64");
  EXPECT_EQ(plain, (BatchRange{16, 64, 1, BatchRule::kNone, 0}));
  EXPECT_EQ(range_of("16:64:4,rule=sqrt,micro=8"), (BatchRange{16, 64, 4, BatchRule::kSqrt, 8}));
  EXPECT_EQ(range_of("16:64,micro=8,rule=adascale"), (BatchRange{16, 64, 1, BatchRule::kAdascale, 8}));
  EXPECT_EQ(range_of("64:64").smallest(), 64);
  const BatchRange odd = range_of("10:30:8");
  EXPECT_EQ(odd.smallest(), 16);
  EXPECT_EQ(odd.largest(), 24);
  EXPECT_TRUE(parse_batch("1:100000000"));
}

TEST(Batch, each_refusal_names_the_value_the_reason_and_what_is_allowed) {
  const struct {
    const char* text;
    const char* reason;
  } rows[] = {{"64:16", "'64:16' has a MIN above its MAX; allowed: "},
              {"10:15:16", "'10:15:16' has no multiple of 16 from 10 to 15; allowed: "},
              {"17:19:8", "'17:19:8' has no multiple of 8 from 17 to 19; allowed: "},
              {"64", "'64' is one batch and no range; allowed: "},
              {"16:64,rule=cube", "'cube' is not a rule for the learning rate; allowed: rule=none, linear, sqrt or "},
              {"16:64,rule", "'rule' is not an option of a batch; allowed: "},
              {"16:64,lr=2", "'lr=2' is not an option of a batch; allowed: "},
              {"16:64,rule=none,rule=sqrt", "'rule=sqrt' is a second rule; allowed: rule once"},
              {"16:many", "'many' is not a number of samples, as MAX; allowed: "},
              {"0:64", "'0' is too small for MIN; allowed: "},
              {"16:100000001", "'100000001' is too large for MAX; allowed: "},
              {"16:99999999999999999999999", "is too large for MAX; allowed: "},
              {"16:64:0", "'0' is too small for MULTIPLE; allowed: "},
              {"16:64,micro=0", "'0' is too small for micro=; allowed: "},
              {"-1:4", "'-1' is not a number of samples, as MIN; allowed: "},
              {"16:64:4:2", "'16:64:4:2' is not a range of batches; allowed: "},
              {"many", "'many' is not a range of batches; allowed: "},
              {"", "the value is empty; allowed: "}};
  for (const auto& row : rows) {
    auto refused = parse_batch(row.text);
    ASSERT_FALSE(refused) << row.text;
    EXPECT_EQ(refused.error().code, Errc::kInvalid);
    EXPECT_NE(refused.error().text.find(row.reason), std::string::npos) << refused.error().text;
  }
  for (const std::string& bad :
       {std::string(5000, '1'), std::string("1:\0", 3), std::string("\xff:\n"), std::string("(null)"), std::string(":"),
        std::string("1:2,"), std::string(" 1:2"), std::string("1:2 ")}) {
    auto refused = parse_batch(bad);
    ASSERT_FALSE(refused) << printable(bad);
    for (char c : refused.error().text) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
    EXPECT_LT(refused.error().text.size(), 600U);
  }
}

TEST(Batch, text_is_read_back_to_the_same_value) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    BatchRange range;
    range.multiple = 1 + random() % 100;
    range.min = 1 + random() % 1000;
    range.max = range.smallest() + random() % 5000;
    range.rule = static_cast<BatchRule>(random() % 4);
    range.micro = random() % 3 == 0 ? 0 : 1 + random() % 64;
    EXPECT_EQ(range_of(format_batch(range)), range);
  }
}

TEST(Batch, below_the_number_of_learners_is_refused_with_what_is_allowed) {
  EXPECT_TRUE(check_batch(range_of("16:64:4"), {1, 64}));
  auto refused = check_batch(range_of("16:65:4"), {1, 65});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kConflict);
  EXPECT_EQ(
      refused.error().text,
      "'16:65:4' has no batch for 65 learners, since each needs a sample and the largest batch has 64; allowed: a "
      "larger MAX, or at most 64 learners");
  EXPECT_FALSE(split_batch(range_of("16:64"), 65, 64));
}

TEST(Batch, grows_with_the_learners_up_to_the_largest) {
  EXPECT_EQ(split_of("16:64:4", 1, 1).batch, 16);
  EXPECT_EQ(split_of("16:64:4", 1, 2).batch, 32);
  EXPECT_EQ(split_of("16:64:4", 1, 3).batch, 48);
  EXPECT_EQ(split_of("16:64:4", 1, 4).batch, 64);
  EXPECT_EQ(split_of("16:64:4", 1, 8).batch, 64);
  EXPECT_EQ(split_of("16:64:4", 2, 4).batch, 32);
  EXPECT_EQ(split_of("16:64:4", 1, 4).accumulation, 1);
}

TEST(Batch, divides_evenly_where_one_of_the_range_does) {
  EXPECT_EQ(split_of("10:100", 3, 4).batch, 12);     // target 13
  EXPECT_EQ(split_of("64:64", 1, 3).batch, 64);      // there is no other
  EXPECT_EQ(split_of("60:70", 1, 7).batch, 70);      // 70 is the target, clamped
  EXPECT_EQ(split_of("16:64:16", 3, 3).batch, 48);   // the only multiple of 16 and 3
  EXPECT_EQ(split_of("16:40:16", 3, 3).batch, 16);   // no multiple of 16 and 3 is there
  EXPECT_EQ(split_of("1:1000", 5, 100).batch, 100);  // each needs a sample
}

TEST(Batch, is_computed_in_passes_that_fit) {
  EXPECT_EQ(split_of("64:64,micro=16", 1, 1).accumulation, 4);
  EXPECT_EQ(split_of("64:64,micro=16", 1, 2).accumulation, 2);
  EXPECT_EQ(split_of("64:64,micro=16", 1, 4).accumulation, 1);
  EXPECT_EQ(split_of("64:64,micro=15", 1, 1).accumulation, 8);  // 5 would not be even
  const BatchSplit even = split_of("17:1000,micro=16", 1, 1);   // of 17 no passes are even but 17
  EXPECT_EQ(even.batch, 18);
  EXPECT_EQ(even.accumulation, 2);
}

TEST(Batch, scales_the_learning_rate_by_the_rule) {
  EXPECT_EQ(lr_scale(range_of("16:64"), 64), 1);
  EXPECT_EQ(lr_scale(range_of("16:64,rule=linear"), 64), 4);
  EXPECT_EQ(lr_scale(range_of("16:64,rule=sqrt"), 64), 2);
  EXPECT_NEAR(lr_scale(range_of("16:64,rule=sqrt"), 32), std::sqrt(2.0), 1e-15);
  EXPECT_EQ(lr_scale(range_of("16:64,rule=adascale"), 64), 1) << "no noise was reported";
  EXPECT_EQ(lr_scale(range_of("16:64,rule=adascale"), 64, NAN), 1);
  EXPECT_EQ(lr_scale(range_of("16:64,rule=adascale"), 64, 0), 1) << "without noise a larger batch brings nothing";
  EXPECT_EQ(lr_scale(range_of("16:64,rule=adascale"), 64, 64), 2.5);
  EXPECT_NEAR(lr_scale(range_of("16:64,rule=adascale"), 64, 1e12), 4, 1e-9);
  EXPECT_EQ(lr_scale(range_of("16:64,rule=adascale"), 64, INFINITY), 4);
  EXPECT_EQ(format_lr_scale(2), "2");
  EXPECT_EQ(format_lr_scale(std::sqrt(2.0)), "1.41421356");
}

// Whatever is asked: the batch is allowed, the parts add up to it, none is empty, none is larger than a learner may
// compute at once (but for the one case that batch_split.h names), and the answer is the same each time.
TEST(Batch, properties_hold_for_random_questions) {
  std::mt19937 random(19);
  int even = 0;
  for (int i = 0; i < 200000; ++i) {
    BatchRange range;
    range.multiple = 1 + random() % (i % 3 == 0 ? 1 : 40);
    range.min = 1 + random() % 300;
    range.max = range.smallest() + random() % 1200;
    range.rule = static_cast<BatchRule>(random() % 4);
    range.micro = random() % 2 == 0 ? 0 : 1 + random() % 40;
    const int least = 1 + static_cast<int>(random() % 12);
    const int learners = least + static_cast<int>(random() % 40);
    const int64_t target = random() % 4 == 0 ? random() % 3000 : batch_target(range, least, learners);
    const auto split = split_batch(range, learners, target);
    if (learners > range.largest()) {
      ASSERT_FALSE(split);
      continue;
    }
    ASSERT_TRUE(split);
    const std::string what = format_batch(range) + " over " + std::to_string(learners);
    EXPECT_GE(split->batch, range.min) << what;
    EXPECT_LE(split->batch, range.max) << what;
    EXPECT_EQ(split->batch % range.multiple, 0) << what;
    int64_t sum = 0;
    for (int rank = 0; rank < learners; ++rank) {
      int64_t own = 0;
      for (int64_t pass = 0; pass < split->accumulation; ++pass) {
        const int64_t part = part_size(part_size(split->batch, pass, split->accumulation), rank, learners);
        ASSERT_GE(part, 1) << what;
        const int64_t most = range.micro == 0 ? part : std::max<int64_t>(range.micro, 2);
        ASSERT_LE(part, most) << what;
        own += part;
      }
      ASSERT_EQ(own, local_batch(*split, rank, learners)) << what;
      sum += own;
    }
    ASSERT_EQ(sum, split->batch) << what;
    even += split->batch % (learners * split->accumulation) == 0 ? 1 : 0;
    const auto again = split_batch(range, learners, target);
    EXPECT_EQ(again->batch, split->batch);
    EXPECT_EQ(again->accumulation, split->accumulation);
    const double scale = lr_scale(range, split->batch, random() % 2 == 0 ? -1 : random() % 10000);
    EXPECT_GE(scale, 1) << what;
    EXPECT_LE(scale, static_cast<double>(split->batch) / static_cast<double>(range.min) + 1e-9) << what;
  }
  EXPECT_GT(even, 100000);
}

// The largest values neither overflow nor take long.
TEST(Batch, the_largest_numbers_are_taken) {
  for (const char* text :
       {"1:100000000,micro=1", "1:100000000:99999999", "99999999:100000000,micro=3", "1:100000000:49999991,micro=7"}) {
    const BatchRange range = range_of(text);
    for (int learners : {1, 2, 99999, kMaxLearners}) {
      const auto split = split_batch(range, learners, batch_target(range, 1, learners));
      ASSERT_TRUE(split) << text;
      EXPECT_GE(split->batch, learners);
      EXPECT_LE(split->batch, range.max);
      EXPECT_GE(split->batch / split->accumulation, learners);
    }
  }
}

}  // namespace
}  // namespace dl
