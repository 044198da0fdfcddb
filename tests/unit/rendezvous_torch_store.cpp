// SPDX-License-Identifier: Apache-2.0
// What each request means, by tables: requests in, the bytes of the reply and who else may go on out.
#include "launcher/rendezvous/torch_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/rendezvous/serve.h"
#include "tests/unit/rendezvous_support.h"

namespace dl::rendezvous {
namespace {

using namespace test;
using Clients = std::vector<ClientId>;

class RendezvousTorchStore : public testing::Test {
 protected:
  // "ERROR" if the client would be cut off.
  std::string ask(ClientId client, Op op, std::vector<std::string> keys = {}, std::vector<std::string> values = {},
                  int64_t number = 0) {
    Request request;
    request.op = op;
    request.keys = std::move(keys);
    request.values = std::move(values);
    request.number = number;
    std::string reply;
    return serve(&store, client, std::move(request), limits, &reply) ? reply : "ERROR";
  }
  TorchStore store;
  ServeLimits limits;
};

const std::string kStop(1, '\0'), kCanceled(1, '\1'), kYes(1, '\0'), kNo(1, '\1');

TEST_F(RendezvousTorchStore, Values) {
  EXPECT_EQ(ask(1, Op::kGet, {"a"}), text(""));
  EXPECT_EQ(ask(1, Op::kSet, {"a"}, {"x"}), "");
  EXPECT_EQ(ask(2, Op::kGet, {"a"}), text("x"));
  EXPECT_EQ(ask(1, Op::kAppend, {"a"}, {"yz"}), "");
  EXPECT_EQ(ask(1, Op::kAppend, {"b"}, {"1"}), "");
  EXPECT_EQ(ask(1, Op::kMultiGet, {"a", "none", "b", "a"}), text("xyz") + text("") + text("1") + text("xyz"));
  EXPECT_EQ(ask(1, Op::kMultiSet, {"c", "d"}, {"3", ""}), "");
  EXPECT_EQ(ask(1, Op::kNumKeys), i64(4));
  EXPECT_EQ(ask(1, Op::kCheck, {"a", "d"}), kYes);
  EXPECT_EQ(ask(1, Op::kCheck, {"a", "e"}), kNo);
  EXPECT_EQ(ask(1, Op::kCheck, {}), kYes);
  EXPECT_EQ(ask(1, Op::kDelete, {"a"}), i64(1));
  EXPECT_EQ(ask(1, Op::kDelete, {"a"}), i64(0));
  EXPECT_EQ(ask(1, Op::kDelete, {"c"}) + ask(1, Op::kDelete, {"d"}), i64(1) + i64(1));
  EXPECT_EQ(ask(1, Op::kListKeys), i64(1) + text("b"));
  EXPECT_EQ(ask(1, Op::kPing, {}, {}, 0x01020304), std::string("\x04\x03\x02\x01", 4));
  EXPECT_EQ(ask(1, Op::kValidate), "");
}

TEST_F(RendezvousTorchStore, CompareSet) {
  EXPECT_EQ(ask(1, Op::kCompareSet, {"a"}, {"x", "y"}), text("x"));  // as torch: what was expected
  EXPECT_EQ(store.get("a"), nullptr);
  EXPECT_EQ(ask(1, Op::kCompareSet, {"a"}, {"", "y"}), text("y"));
  EXPECT_EQ(ask(1, Op::kCompareSet, {"a"}, {"x", "z"}), text("y"));
  EXPECT_EQ(ask(1, Op::kCompareSet, {"a"}, {"y", "z"}), text("z"));
}

TEST_F(RendezvousTorchStore, Add) {
  EXPECT_EQ(ask(1, Op::kAdd, {"n"}, {}, 5), i64(5));
  EXPECT_EQ(ask(1, Op::kAdd, {"n"}, {}, -7), i64(-2));
  EXPECT_EQ(*store.get("n"), "-2");
  EXPECT_EQ(ask(1, Op::kSet, {"n"}, {"12 and more"}), "");
  EXPECT_EQ(ask(1, Op::kAdd, {"n"}, {}, 1), i64(13));
  EXPECT_EQ(ask(1, Op::kSet, {"n"}, {"no"}), "");
  EXPECT_EQ(ask(1, Op::kAdd, {"n"}, {}, 1), "ERROR");
  EXPECT_EQ(ask(1, Op::kSet, {"n"}, {"99999999999999999999"}), "");
  EXPECT_EQ(ask(1, Op::kAdd, {"n"}, {}, 1), "ERROR");
  EXPECT_EQ(ask(1, Op::kAdd, {"max"}, {}, INT64_MAX), i64(INT64_MAX));
  EXPECT_EQ(ask(1, Op::kAdd, {"max"}, {}, 1), i64(INT64_MIN));
}

TEST_F(RendezvousTorchStore, AWaitEndsWhenTheLastMissingKeyHasCome) {
  ask(9, Op::kSet, {"a"}, {"1"});
  EXPECT_EQ(ask(1, Op::kWait, {"a"}), kStop);
  EXPECT_EQ(ask(1, Op::kWait, {"a", "b", "c", "b"}), "");
  EXPECT_EQ(ask(2, Op::kWait, {"c"}), "");
  EXPECT_EQ(ask(3, Op::kWait, {"d"}), "");
  ask(9, Op::kSet, {"b"}, {"1"});
  ask(9, Op::kSet, {"a"}, {"2"});
  EXPECT_EQ(store.take_woken(), Clients{});
  ask(9, Op::kAdd, {"c"}, {}, 1);
  EXPECT_EQ(store.take_woken(), (Clients{1, 2}));
  ask(9, Op::kMultiSet, {"x", "d"}, {"", ""});
  EXPECT_EQ(store.take_woken(), Clients{3});
  ask(9, Op::kSet, {"d"}, {"again"});
  EXPECT_EQ(store.take_woken(), Clients{});
}

TEST_F(RendezvousTorchStore, EveryWayOfMakingAKeyEndsAWait) {
  int client = 10;
  for (const Op op : {Op::kSet, Op::kCompareSet, Op::kAdd, Op::kAppend, Op::kMultiSet, Op::kQueuePush, Op::kBarrier}) {
    const std::string key = "k" + std::to_string(client);
    const auto id = static_cast<ClientId>(client++);
    EXPECT_EQ(ask(id, Op::kWait, {key}), "");
    ask(9, op, {key}, {"", "1"}, 1);
    EXPECT_EQ(store.take_woken(), Clients{id}) << static_cast<int>(op);
  }
}

TEST_F(RendezvousTorchStore, ACanceledWaitIsForgotten) {
  const size_t before = store.bytes();
  EXPECT_EQ(ask(1, Op::kCancelWait), kCanceled);
  ask(1, Op::kWait, {"a", "b"});
  EXPECT_EQ(ask(1, Op::kCancelWait), kCanceled);
  EXPECT_EQ(store.bytes(), before);
  ask(1, Op::kWait, {"b"});
  store.cancel_wait(1);  // it is gone
  ask(2, Op::kMultiSet, {"a", "b"}, {"", ""});
  EXPECT_EQ(store.take_woken(), Clients{});
  // Another wait of the same client replaces the first.
  ask(1, Op::kWait, {"c"});
  ask(1, Op::kWait, {"d"});
  ask(2, Op::kSet, {"c"}, {""});
  EXPECT_EQ(store.take_woken(), Clients{});
  ask(2, Op::kSet, {"d"}, {""});
  EXPECT_EQ(store.take_woken(), Clients{1});
}

TEST_F(RendezvousTorchStore, QueuesServeTheirWaitersInTurn) {
  EXPECT_EQ(ask(1, Op::kQueuePop, {"q"}), i64(0));
  EXPECT_EQ(ask(1, Op::kQueueLen, {"q"}), i64(0));
  for (const ClientId id : {1, 2, 3}) EXPECT_EQ(ask(id, Op::kWait, {"q"}), "");
  ask(9, Op::kQueuePush, {"q"}, {"a"});
  EXPECT_EQ(store.take_woken(), Clients{1});
  ask(9, Op::kQueuePush, {"q"}, {"b"});
  EXPECT_EQ(store.take_woken(), Clients{2});
  EXPECT_EQ(ask(1, Op::kCheck, {"q"}), kYes);
  EXPECT_EQ(ask(1, Op::kQueueLen, {"q"}), i64(2));
  EXPECT_EQ(ask(1, Op::kQueuePop, {"q"}), i64(2) + text("a"));
  EXPECT_EQ(ask(2, Op::kQueuePop, {"q"}), i64(1) + text("b"));
  EXPECT_EQ(ask(2, Op::kCheck, {"q"}), kNo);
  EXPECT_EQ(ask(2, Op::kNumKeys), i64(0));
  EXPECT_EQ(store.take_woken(), Clients{});
  store.cancel_wait(3);
  EXPECT_EQ(store.bytes(), 0U);
}

TEST_F(RendezvousTorchStore, ABarrierOpensForAllAtOnceAndStaysOpen) {
  EXPECT_EQ(ask(1, Op::kBarrier, {"b"}, {}, 3), "");
  EXPECT_EQ(ask(2, Op::kBarrier, {"b"}, {}, 3), "");
  EXPECT_EQ(store.take_woken(), Clients{});
  EXPECT_EQ(ask(3, Op::kBarrier, {"b"}, {}, 3), kStop);
  EXPECT_EQ(store.take_woken(), (Clients{1, 2}));
  EXPECT_EQ(*store.get("b"), "3");
  EXPECT_EQ(ask(4, Op::kBarrier, {"b"}, {}, 3), kStop);
  ask(5, Op::kBarrier, {"c"}, {}, 2);
  EXPECT_EQ(ask(5, Op::kCancelWait), kCanceled);
  EXPECT_EQ(ask(6, Op::kBarrier, {"c"}, {}, 2), kStop);
  EXPECT_EQ(store.take_woken(), Clients{});
}

TEST_F(RendezvousTorchStore, MemoryIsCountedAndBounded) {
  limits.store_bytes = 10000;
  limits.reply_bytes = 2000;
  int stored = 0;
  while (ask(1, Op::kSet, {"key" + std::to_string(stored)}, {std::string(100, 'x')}) != "ERROR") ++stored;
  EXPECT_GT(stored, 10);
  EXPECT_LE(store.bytes(), limits.store_bytes);
  EXPECT_EQ(ask(1, Op::kQueuePush, {"q"}, {std::string(100, 'x')}), "ERROR");
  EXPECT_EQ(ask(1, Op::kWait, {"no", "nor this"}), "ERROR");
  EXPECT_EQ(ask(1, Op::kMultiGet, std::vector<std::string>(100, "key1")), "ERROR");
  EXPECT_EQ(ask(1, Op::kListKeys), "ERROR");
  EXPECT_EQ(ask(1, Op::kGet, {"key1"}), text(std::string(100, 'x'))) << "what is there is still served";
  while (stored > 0) EXPECT_EQ(ask(1, Op::kDelete, {"key" + std::to_string(--stored)}), i64(1));
  EXPECT_EQ(store.bytes(), 0U);
}

}  // namespace
}  // namespace dl::rendezvous
