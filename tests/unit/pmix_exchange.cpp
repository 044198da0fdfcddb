// SPDX-License-Identifier: Apache-2.0
#include "launcher/pmix/exchange.h"

#include <gtest/gtest.h>

namespace dl::pmix {
namespace {

// "n0: part 3 'ab'; n0: done 3 0; ..."
std::string shown(const Exchange::Answers& answers) {
  std::string text;
  for (const auto& [node, message] : answers) {
    text += (text.empty() ? "n" : "; n") + std::to_string(node) + ": ";
    if (const auto* part = std::get_if<FencePart>(&message))
      text += "part " + std::to_string(part->id) + " " + part->data.bytes;
    if (const auto* done = std::get_if<Done>(&message))
      text += "done " + std::to_string(done->id) + " " + std::to_string(done->status);
    if (const auto* get = std::get_if<Get>(&message))
      text += "get " + std::to_string(get->id) + " of " + std::to_string(get->rank);
    if (const auto* got = std::get_if<Got>(&message))
      text += "got " + std::to_string(got->id) + " " + std::to_string(got->status) + " " + got->data.bytes;
    if (const auto* event = std::get_if<Event>(&message)) text += "event " + std::to_string(event->code);
    if (const auto* found = std::get_if<Found>(&message)) {
      text += "found " + std::to_string(found->id) + " " + std::to_string(found->status);
      for (const Entry& entry : found->entries)
        text += " " + entry.key + "=" + entry.data.bytes + " of " + std::to_string(entry.rank);
    }
  }
  return text;
}

Exchange three_nodes() {
  return Exchange({{0, 1}, {2, 3}, {4}});
}

TEST(PmixExchangeTest, AFenceOfAllEndsWhenEachNodeIsInAndGivesEachWhatAllGave) {
  Exchange exchange = three_nodes();
  EXPECT_EQ(shown(exchange.handle(0, Fence{7, "fence", {}, {"a"}})), "");
  EXPECT_EQ(shown(exchange.handle(2, Fence{9, "fence", {}, {"c"}})), "");
  EXPECT_EQ(shown(exchange.handle(1, Fence{8, "fence", {}, {}})),
            "n0: part 7 a; n0: part 7 c; n0: done 7 0; n1: part 8 a; n1: part 8 c; n1: done 8 0; "
            "n2: part 9 a; n2: part 9 c; n2: done 9 0");
  // The next one of the same is another.
  EXPECT_EQ(shown(exchange.handle(0, Fence{10, "fence", {}, {"d"}})), "");
}

TEST(PmixExchangeTest, FencesOfSubGroupsAndKindsAreApart) {
  Exchange exchange = three_nodes();
  EXPECT_EQ(shown(exchange.handle(0, Fence{1, "fence", {0, 4}, {}})), "");
  EXPECT_EQ(shown(exchange.handle(0, Fence{2, "fence", {1, 4}, {}})), "");
  EXPECT_EQ(shown(exchange.handle(0, Fence{3, "connect", {0, 4}, {}})), "");
  EXPECT_EQ(shown(exchange.handle(2, Fence{4, "fence", {1, 4}, {}})), "n0: done 2 0; n2: done 4 0");
  EXPECT_EQ(shown(exchange.handle(1, Fence{5, "fence", {0, 4}, {}})), "n1: done 5 -27") << "takes no part in it";
  EXPECT_EQ(shown(exchange.handle(2, Fence{6, "fence", {0, 99}, {}})), "n2: done 6 -27") << "no such rank";
  // A group on one node needs nobody else.
  EXPECT_EQ(shown(exchange.handle(1, Fence{7, "fence", {2, 3}, {"x"}})), "n1: part 7 x; n1: done 7 0");
}

TEST(PmixExchangeTest, AFailedMemberLetsNobodyWait) {
  Exchange exchange = three_nodes();
  EXPECT_EQ(shown(exchange.handle(0, Fence{1, "fence", {}, {"a"}})), "");
  EXPECT_EQ(shown(exchange.handle(0, Fence{2, "fence", {0, 2}, {}})), "");
  EXPECT_EQ(shown(exchange.handle(0, Get{3, 4})), "n2: get 1 of 4");
  EXPECT_EQ(shown(exchange.gone(4, true)), "n0: done 1 -61; n0: got 3 -61 ");
  EXPECT_EQ(shown(exchange.handle(1, Fence{4, "fence", {}, {}})), "n1: done 4 -61") << "nor does who comes later";
  EXPECT_EQ(shown(exchange.handle(1, Fence{5, "fence", {0, 2}, {}})), "n0: done 2 0; n1: done 5 0");
  EXPECT_EQ(shown(exchange.handle(1, Get{6, 4})), "n1: got 6 -61 ");
  EXPECT_EQ(shown(exchange.handle(2, Got{1, 0, {"late"}})), "");
}

TEST(PmixExchangeTest, AMemberThatEndsInOrderEndsNoFence) {
  Exchange exchange = three_nodes();
  EXPECT_EQ(shown(exchange.handle(0, Fence{1, "fence", {0, 2}, {}})), "");
  EXPECT_EQ(shown(exchange.gone(0, false)), "");
  EXPECT_EQ(shown(exchange.handle(1, Fence{2, "fence", {0, 2}, {}})), "n0: done 1 0; n1: done 2 0");
}

TEST(PmixExchangeTest, AQuestionGoesToTheRanksNodeAndItsAnswerBack) {
  Exchange exchange = three_nodes();
  EXPECT_EQ(shown(exchange.handle(0, Get{5, 3})), "n1: get 1 of 3");
  EXPECT_EQ(shown(exchange.handle(2, Got{1, 0, {"false"}})), "") << "another node cannot answer for it";
  EXPECT_EQ(shown(exchange.handle(1, Got{1, 0, {"data"}})), "n0: got 5 0 data");
  EXPECT_EQ(shown(exchange.handle(1, Got{1, 0, {"data"}})), "");
  EXPECT_EQ(shown(exchange.handle(1, Get{6, 5})), "n1: got 6 -46 ");
}

TEST(PmixExchangeTest, NamesAreFoundWaitedForAndTakenBackByTheirOwnerAlone) {
  Exchange exchange = three_nodes();
  EXPECT_EQ(shown(exchange.handle(0, Lookup{1, {"k"}, false})), "n0: found 1 -46");
  EXPECT_EQ(shown(exchange.handle(0, Lookup{2, {"k", "m"}, true})), "");
  EXPECT_EQ(shown(exchange.handle(1, Publish{3, 2, {{"k", {"v"}, -1}}})), "n1: done 3 0");
  EXPECT_EQ(shown(exchange.handle(2, Publish{4, 4, {{"m", {"w"}, -1}}})),
            "n2: done 4 0; n0: found 2 0 k=v of 2 m=w of 4");
  EXPECT_EQ(shown(exchange.handle(2, Publish{5, 4, {{"k", {"x"}, -1}}})), "n2: done 5 -53") << "it is there already";
  EXPECT_EQ(shown(exchange.handle(2, Publish{6, 2, {{"n", {"x"}, -1}}})), "n2: done 6 -27") << "not its rank";
  EXPECT_EQ(shown(exchange.handle(2, Unpublish{7, 4, {"k"}})), "n2: done 7 0");
  EXPECT_EQ(shown(exchange.handle(0, Lookup{8, {"k"}, false})), "n0: found 8 0 k=v of 2");
  EXPECT_EQ(shown(exchange.handle(1, Unpublish{9, 2, {}})), "n1: done 9 0");
  EXPECT_EQ(shown(exchange.handle(0, Lookup{10, {"k"}, false})), "n0: found 10 -46");
}

TEST(PmixExchangeTest, WhatIsPublishedIsBounded) {
  Exchange exchange = three_nodes();
  const std::string large(kMaxData, 'x');
  for (size_t i = 0; i < Limits().stored / kMaxData; ++i)
    EXPECT_EQ(shown(exchange.handle(2, Publish{1, 4, {{"k" + std::to_string(i), {large}, -1}}})), "n2: done 1 0");
  EXPECT_EQ(shown(exchange.handle(2, Publish{2, 4, {{"one more", {"x"}, -1}}})), "n2: done 2 -29");
  EXPECT_EQ(shown(exchange.handle(2, Unpublish{3, 4, {"k0"}})), "n2: done 3 0");
  EXPECT_EQ(shown(exchange.handle(2, Publish{4, 4, {{"one more", {"x"}, -1}}})), "n2: done 4 0");
}

TEST(PmixExchangeTest, WhatIsAskedForIsBounded) {
  const std::vector<std::vector<int>> ranks = {{0}, {1}};
  Exchange fences(ranks, {64, 4, 6, 16});
  EXPECT_EQ(shown(fences.handle(0, Fence{1, "fence", {0, 1}, {"12345678"}})), "") << "two ranks count, too";
  EXPECT_EQ(shown(fences.handle(0, Fence{2, "connect", {0, 1}, {"1"}})), "n0: done 2 -29");
  EXPECT_EQ(shown(fences.handle(1, Fence{3, "fence", {0, 1}, {}})),
            "n0: part 1 12345678; n0: done 1 0; n1: part 3 "
            "12345678; n1: done 3 0");
  EXPECT_EQ(shown(fences.handle(0, Fence{4, "fence", {0, 1}, {"12345678"}})), "") << "there is room again";
  Exchange lookups(ranks, {8, 4, 6, 16});
  EXPECT_EQ(shown(lookups.handle(0, Lookup{1, {"12345678"}, true})), "");
  EXPECT_EQ(shown(lookups.handle(0, Lookup{2, {"1"}, true})), "n0: found 2 -29");
  EXPECT_EQ(shown(lookups.handle(1, Publish{3, 1, {{"12345678", {"v"}, -1}}})),
            "n1: done 3 0; n0: found 1 0 12345678=v of 1");
  EXPECT_EQ(shown(lookups.handle(0, Lookup{4, {"1"}, true})), "");
  EXPECT_EQ(shown(lookups.handle(1, Publish{5, 1, {{"k", {"a"}, -1}, {"k", {"b"}, -1}}})), "n1: done 5 -53");
}

TEST(PmixExchangeTest, ALearnersOwnEventGoesToTheOtherNodes) {
  Exchange exchange = three_nodes();
  EXPECT_EQ(shown(exchange.handle(1, Event{-1001, 2, 0, {}, 0})), "n0: event -1001; n2: event -1001");
  EXPECT_EQ(shown(exchange.handle(1, Event{-1001, 0, 0, {}, 0})), "") << "it speaks for a rank of another node";
}

}  // namespace
}  // namespace dl::pmix
