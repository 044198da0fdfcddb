// SPDX-License-Identifier: Apache-2.0
#include "launcher/pmix/messages.h"

#include <gtest/gtest.h>

#include "launcher/pmix/job_data.h"

namespace dl::pmix {
namespace {

const std::string kBytes("\0\x01\xff\n\"", 5);

TEST(PmixMessagesTest, EveryMessageIsReadBack) {
  const PmixMessage messages[] = {Job{"dl.1.1.x", 1, {"n1", "n2"}, {{0, 1}, {2}}},
                                  FencePart{1, {kBytes}},
                                  Lost{2, -1},
                                  Ready{"OpenPMIx 4.2.2", {{{"PMIX_RANK", "0"}, {"A", "b=c"}}}},
                                  Failed{"why"},
                                  Client{3, true},
                                  Fence{4, "fence", {0, 2}, {kBytes}},
                                  Abort{5, 1, 7, "on purpose"},
                                  Publish{6, 1, {{"k", {kBytes}, -1}}},
                                  Lookup{7, {"k"}, true},
                                  Unpublish{8, 1, {"k"}},
                                  Refused{1, "start more"},
                                  Get{9, 1},
                                  Got{10, -61, {kBytes}},
                                  Event{-1001, 1, 2, {kBytes}, 1},
                                  Done{11, -27},
                                  Found{12, 0, {{"k", {kBytes}, 2}}}};
  static_assert(std::size(messages) == std::variant_size_v<PmixMessage>);
  for (const PmixMessage& message : messages) {
    const std::string text = encode(message);
    auto read = decode(text);
    ASSERT_TRUE(read) << text << ": " << read.error().text;
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(encode(*read), text);
  }
  EXPECT_EQ(std::get<FencePart>(*decode(encode(messages[1]))).data.bytes, kBytes);
}

TEST(PmixMessagesTest, WhatIsOutOfRangeIsRefused) {
  for (const char* text : {
           "",
           "[]",
           "{}",
           "{\"type\":1}",
           "{\"type\":\"unknown\"}",
           "{\"type\":\"fence\"}",
           "{\"type\":\"fence\",\"id\":1,\"kind\":\"other\"}",
           "{\"type\":\"fence\",\"id\":1,\"kind\":\"fence\",\"ranks\":[1,0]}",
           "{\"type\":\"fence\",\"id\":1,\"kind\":\"fence\",\"ranks\":[0,0]}",
           "{\"type\":\"fence\",\"id\":1,\"kind\":\"fence\",\"ranks\":[-1]}",
           "{\"type\":\"fence\",\"id\":1,\"kind\":\"fence\",\"data\":\"A\"}",
           "{\"type\":\"fence\",\"id\":1,\"kind\":\"fence\",\"data\":5}",
           "{\"type\":\"fence\",\"id\":-1,\"kind\":\"fence\"}",
           "{\"type\":\"get\",\"id\":1,\"rank\":-1}",
           "{\"type\":\"get\",\"id\":1,\"rank\":1048576}",
           "{\"type\":\"get\",\"id\":\"1\"}",
           "{\"type\":\"publish\",\"id\":1,\"entries\":[{\"key\":\"\"}]}",
           "{\"type\":\"lookup\",\"id\":1,\"keys\":[\"a\\u0000b\"]}",
           "{\"type\":\"ready\",\"learners\":[{\"A=B\":\"c\"}]}",
           "{\"type\":\"ready\",\"learners\":[{\"A\":\"\\u0000\"}]}",
           "{\"type\":\"job\",\"space\":\"s\",\"node\":1,\"nodes\":[\"n1\"],\"ranks\":[[0]]}",
           "{\"type\":\"job\",\"space\":\"s\",\"node\":0,\"nodes\":[\"n1;\"],\"ranks\":[[0]]}",
           "{\"type\":\"job\",\"space\":\"s\",\"node\":0,\"nodes\":[\"n1\"],\"ranks\":[[]]}",
           "{\"type\":\"event\",\"rank\":0,\"count\":-1}",
       })
    EXPECT_FALSE(decode(text)) << text;
  EXPECT_FALSE(decode(encode(FencePart{1, {std::string(kMaxData + 1, 'x')}})));
  EXPECT_TRUE(decode(encode(FencePart{1, {std::string(kMaxData, 'x')}})));
}

TEST(PmixJobDataTest, IsMadeOfTheLaunchPlan) {
  auto data = job_data({"s", 1, {"n1", "n2"}, {{0, 2}, {1, 3, 4}}});
  ASSERT_TRUE(data);
  EXPECT_EQ(data->size, 5);
  EXPECT_EQ(data->nodes, "n1,n2");
  EXPECT_EQ(data->ranks, "0,2;1,3,4");
  EXPECT_EQ(data->local_peers, "1,3,4");
  EXPECT_EQ(data->processes[3].local_rank, 1);
  EXPECT_EQ(data->processes[3].node, 1);
  EXPECT_FALSE(job_data({"s", 0, {"n1", "n2"}, {{0, 1}, {1}}})) << "rank 1 twice";
  EXPECT_FALSE(job_data({"s", 0, {"n1", "n2"}, {{0}, {2}}})) << "no rank 1";
}

}  // namespace
}  // namespace dl::pmix
