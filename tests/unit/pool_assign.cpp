// SPDX-License-Identifier: Apache-2.0
// Slots are divided evenly, as few as possible move, and copies never lie at the owner: for random pools and changes.
#include "launcher/pool/assign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace dl::pool;

namespace {

std::vector<Held> as_held(const std::vector<Wish>& wish) {
  std::vector<Held> now;
  for (const Wish& w : wish)
    now.push_back({w.owner, w.copy == 0 ? std::vector<MemberId>{} : std::vector<MemberId>{w.copy}});
  return now;
}

int moves(const std::vector<Held>& now, const std::vector<Wish>& wish) {
  int count = 0;
  for (size_t i = 0; i < now.size(); ++i)
    if (now[i].owner != 0 && wish[i].owner != now[i].owner) ++count;
  return count;
}

// The fewest moves of any even division, found without assign(): a member keeps at most its share, and as many of them
// as there are odd slots keep one more.
int fewest_moves(const std::vector<Held>& now, const std::vector<MemberId>& members) {
  const int slots = static_cast<int>(now.size()), base = slots / static_cast<int>(members.size());
  int owned = 0, kept = 0, fuller = 0;
  std::map<MemberId, int> has;
  for (const Held& held : now) {
    if (held.owner != 0) ++owned;
    if (std::find(members.begin(), members.end(), held.owner) != members.end()) ++has[held.owner];
  }
  for (const auto& [member, count] : has) {
    kept += std::min(count, base);
    if (count > base) ++fuller;
  }
  return owned - kept - std::min(fuller, slots % static_cast<int>(members.size()));
}

void check(const std::vector<Held>& now, const std::vector<MemberId>& members, const std::vector<Wish>& wish) {
  const int slots = static_cast<int>(now.size()), n = static_cast<int>(members.size());
  std::map<MemberId, int> owned, copies;
  for (const Wish& w : wish) {
    ASSERT_NE(std::find(members.begin(), members.end(), w.owner), members.end());
    ++owned[w.owner];
    if (n == 1) {
      ASSERT_EQ(w.copy, 0U);
      continue;
    }
    ASSERT_NE(w.copy, w.owner);
    ASSERT_NE(std::find(members.begin(), members.end(), w.copy), members.end());
    ++copies[w.copy];
  }
  for (const MemberId member : members) {
    ASSERT_GE(owned[member], slots / n);
    ASSERT_LE(owned[member], (slots + n - 1) / n);
    if (n > 1) {
      ASSERT_LE(copies[member], 2 * ((slots + n - 1) / n));
    }
  }
}

}  // namespace

TEST(PoolAssign, APoolThatGrowsMovesOneShareAndOneThatShrinksOnlyWhatTheLeaverHeld) {
  std::vector<Wish> wish = assign(std::vector<Held>(kSlots), {1, 2, 3}, true);
  std::vector<Held> now = as_held(wish);
  wish = assign(now, {1, 2, 3, 4}, true);
  EXPECT_EQ(moves(now, wish), 256);
  now = as_held(wish);
  wish = assign(now, {1, 3, 4}, true);
  EXPECT_EQ(moves(now, wish), 256);
}

TEST(PoolAssign, SlotsOfALeaverGoToTheirCopiesWhereTheseHaveRoom) {
  std::vector<Held> now = as_held(assign(std::vector<Held>(90), {1, 2, 3}, true));
  const std::vector<Wish> wish = assign(now, {1, 2}, true);
  int to_copy = 0, left = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].owner != 3) continue;
    ++left;
    if (wish[i].owner == now[i].copies[0]) ++to_copy;
  }
  EXPECT_EQ(left, 30);
  EXPECT_GE(to_copy, 25);
}

TEST(PoolAssign, NothingMovesWhereNobodyCameOrWent) {
  for (const int members : {1, 2, 3, 7, 64}) {
    std::vector<MemberId> ids;
    for (int i = 1; i <= members; ++i) ids.push_back(static_cast<MemberId>(i));
    const std::vector<Held> now = as_held(assign(std::vector<Held>(kSlots), ids, true));
    const std::vector<Wish> wish = assign(now, ids, true);
    EXPECT_EQ(moves(now, wish), 0);
    for (size_t i = 0; i < now.size(); ++i)
      if (members > 1) {
        EXPECT_EQ(wish[i].copy, now[i].copies[0]);
      }
  }
}

TEST(PoolAssign, RandomChangesAreEvenAndMoveTheFewestSlotsThatAnEvenDivisionCan) {
  std::mt19937 random(20261129);
  for (int round = 0; round < 20000; ++round) {
    const int slots = std::uniform_int_distribution<int>(1, 40)(random);
    std::vector<Held> now(static_cast<size_t>(slots));
    std::set<MemberId> ids{1};
    MemberId next = 2;
    for (int change = 0; change < 6; ++change) {
      if (ids.size() < 2 || random() % 2 == 0) {
        ids.insert(next++);
      } else {
        const MemberId gone = *std::next(ids.begin(), static_cast<long>(random() % ids.size()));
        ids.erase(gone);
        // Of one that was killed, the copies have taken over, or nobody.
        if (random() % 2 == 0)
          for (Held& held : now) {
            if (held.owner == gone) held = {held.copies.empty() ? 0 : held.copies[0], {}};
            if (!held.copies.empty() && held.copies[0] == gone) held.copies.clear();
            if (ids.count(held.owner) == 0 && held.owner == gone) held.owner = 0;
          }
      }
      const std::vector<MemberId> members(ids.begin(), ids.end());
      const std::vector<Wish> wish = assign(now, members, true);
      check(now, members, wish);
      if (HasFatalFailure()) FAIL() << "round " << round;
      ASSERT_EQ(moves(now, wish), fewest_moves(now, members)) << "round " << round;
      now = as_held(wish);
    }
  }
}

// Members of random hosts come and go.
TEST(PoolAssign, ACopyIsOnAnotherHostThanItsOwnerWhereverThereIsOne) {
  std::mt19937 random(20261130);
  for (int round = 0; round < 5000; ++round) {
    const int slots = std::uniform_int_distribution<int>(1, 60)(random);
    std::vector<Held> now(static_cast<size_t>(slots));
    std::map<MemberId, std::string> hosts;
    MemberId next = 1;
    for (int change = 0; change < 8; ++change) {
      if (hosts.size() < 2 || random() % 3 != 0)
        hosts[next++] = "10.0.0." + std::to_string(random() % 3);
      else
        hosts.erase(std::next(hosts.begin(), static_cast<long>(random() % hosts.size())));
      std::vector<MemberId> members;
      std::map<std::string, int> on;
      for (const auto& [id, host] : hosts) {
        members.push_back(id);
        ++on[host];
      }
      const std::vector<Wish> wish = assign(now, members, true, hosts);
      ASSERT_EQ(moves(now, wish), fewest_moves(now, members)) << "round " << round;
      std::map<MemberId, int> copies;
      for (const Wish& w : wish) {
        if (members.size() == 1) continue;
        ASSERT_NE(w.copy, w.owner);
        ++copies[w.copy];
        if (on.size() > 1) {
          ASSERT_NE(hosts.at(w.copy), hosts.at(w.owner)) << "round " << round;
        }
      }
      if (on.size() > 1) {
        int least_others = static_cast<int>(members.size());
        for (const auto& [host, count] : on)
          least_others = std::min(least_others, static_cast<int>(members.size()) - count);
        for (const auto& [id, count] : copies) ASSERT_LE(count, 2 * ((slots + least_others - 1) / least_others));
      }
      now = as_held(wish);
      const std::vector<Wish> again = assign(now, members, true, hosts);
      for (size_t slot = 0; slot < again.size(); ++slot)
        ASSERT_EQ(again[slot].copy, wish[slot].copy) << "nothing changed";
    }
  }
}

TEST(PoolSlots, KeysSpreadOverAllSlots) {
  std::vector<int> keys(kSlots);
  for (int i = 0; i < 100 * kSlots; ++i) ++keys[static_cast<size_t>(slot_of("block/" + std::to_string(i)))];
  EXPECT_GT(*std::min_element(keys.begin(), keys.end()), 50);
  EXPECT_LT(*std::max_element(keys.begin(), keys.end()), 160);
  // Part of the protocol: members and clients of different builds agree.
  EXPECT_EQ(slot_of("block/0"), slot_of("block/0", 1024));
  EXPECT_EQ(slot_of(""), 82);
}
