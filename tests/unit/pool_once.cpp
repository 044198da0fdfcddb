// SPDX-License-Identifier: Apache-2.0
// The table of applied updates, and the bytes of messages: good, bad and hostile.
#include "launcher/pool/once.h"

#include <gtest/gtest.h>

#include <random>

#include "common/base/little_endian.h"
#include "launcher/pool/message.h"

using namespace dl::pool;
using Verdict = Once::Verdict;

TEST(PoolOnce, EachNumberIsAppliedOnceAndItsAnswerIsKept) {
  Once once;
  EXPECT_EQ(once.judge(7, 1), Verdict::kApply);
  once.note(7, 1, {false, "first"});
  EXPECT_EQ(once.judge(7, 1), Verdict::kRepeat);
  EXPECT_EQ(once.last(7).bytes, "first");
  EXPECT_EQ(once.judge(7, 2), Verdict::kApply);
  once.note(7, 2, {true, "second"});
  EXPECT_EQ(once.judge(7, 1), Verdict::kOld);
  EXPECT_EQ(once.judge(7, 4), Verdict::kGap);
  EXPECT_EQ(once.judge(8, 2), Verdict::kGap);
  EXPECT_EQ(once.judge(8, 0), Verdict::kGap);
  once.forget(7);
  EXPECT_EQ(once.judge(7, 3), Verdict::kGap);
}

TEST(PoolOnce, ItMovesWithTheSlot) {
  Once once;
  once.note(1, 9, {false, std::string(1000, 'x')});
  once.note(2, 1, {true, ""});
  std::string bytes;
  once.write(&bytes);
  auto back = Once::read(bytes);
  ASSERT_TRUE(back);
  EXPECT_TRUE(*back == once);
  for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(Once::read(std::string_view(bytes).substr(0, cut)));
  EXPECT_FALSE(Once::read(bytes + "x"));
}

TEST(PoolOnce, SoManyClientsAreRememberedAndNoMore) {
  Once once;
  for (uint64_t client = 1; client <= kMostClients; ++client) once.note(client, 1, {});
  EXPECT_EQ(once.judge(kMostClients + 1, 1), Verdict::kFull);
  EXPECT_EQ(once.judge(1, 2), Verdict::kApply);
  once.forget(1);
  EXPECT_EQ(once.judge(kMostClients + 1, 1), Verdict::kApply);
}

TEST(PoolMessage, WhatIsWrittenIsRead) {
  Message m;
  m.kind = Kind::kForward;
  m.status = 1;
  m.slot = 1023;
  m.member = 77;
  m.epoch = 1ULL << 60;
  m.client = ~0ULL;
  m.number = 5;
  m.key = std::string("key\0with", 8);
  m.bytes = std::string(100000, 'b');
  std::string text;
  encode(m, &text);
  ASSERT_EQ(dl::get_little(text, 0, 4), text.size() - 4);
  const auto back = decode(std::string_view(text).substr(4));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, m.kind);
  EXPECT_EQ(back->status, m.status);
  EXPECT_EQ(back->slot, m.slot);
  EXPECT_EQ(back->member, m.member);
  EXPECT_EQ(back->epoch, m.epoch);
  EXPECT_EQ(back->client, m.client);
  EXPECT_EQ(back->number, m.number);
  EXPECT_EQ(back->key, m.key);
  EXPECT_EQ(back->bytes, m.bytes);
  for (size_t cut = 0; cut < kHeadBytes + m.key.size(); ++cut)
    EXPECT_FALSE(decode(std::string_view(text).substr(4, cut))) << cut;
}

TEST(PoolMessage, TablesAreReadAndCutOnesAreNot) {
  Table table;
  table.version = 9;
  table.ready = true;
  table.members = {{1, "127.0.0.1:5"}, {9, "[::1]:77"}};
  table.owners = {{1, 3}, {9, 4}, {0, 0}};
  table.lost = {false, false, true};
  const std::string bytes = write_table(table);
  const auto back = read_table(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->members[1].address, "[::1]:77");
  EXPECT_EQ(back->owners, table.owners);
  EXPECT_EQ(back->lost, table.lost);
  EXPECT_TRUE(back->ready);
  for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(read_table(std::string_view(bytes).substr(0, cut)));
}

// Under AddressSanitizer this shows that no byte beyond the message is read, whatever the message says.
TEST(PoolMessage, HostileBytesAreRefusedOrReadAndNeverMore) {
  std::mt19937_64 random(11);
  Table table;
  table.members = {{1, "127.0.0.1:5"}, {9, "[::1]:77"}};
  table.owners.resize(20);
  table.lost.resize(20);
  Once once;
  once.note(1, 1, {false, "answer"});
  std::string sound[3];
  Message message;
  message.key = "key";
  message.bytes = "bytes";
  encode(message, &sound[0]);
  sound[0].erase(0, 4);
  sound[1] = write_table(table);
  once.write(&sound[2]);
  for (int round = 0; round < 200000; ++round) {
    std::string bytes = sound[random() % 3];
    const int flips = static_cast<int>(random() % 6);
    for (int i = 0; i < flips; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 3 == 0) bytes.resize(random() % (bytes.size() + 1));
    const std::string exact(bytes.begin(), bytes.end());
    const auto as_message = decode(exact);
    if (as_message) {
      ASSERT_LE(as_message->key.size() + as_message->bytes.size(), exact.size());
    }
    const auto as_table = read_table(exact);
    if (as_table) {
      ASSERT_EQ(as_table->owners.size(), as_table->lost.size());
    }
    const auto as_once = Once::read(exact);
    if (as_once) {
      ASSERT_LE((*as_once).clients(), exact.size());
    }
    ASSERT_TRUE(!read_members(exact) || read_members(exact)->size() <= exact.size());
    ASSERT_TRUE(!read_ids(exact) || read_ids(exact)->size() <= exact.size());
  }
}
