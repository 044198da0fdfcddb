// SPDX-License-Identifier: Apache-2.0
// What the directory of a pool decides: who owns which slot, and the orders by which slots move. Without I/O, clocks or
// threads, so that tests can put its events into any order. It is the only one that appoints owners.
//
// A slot moves in three steps, and only the last is felt by clients, for the time of two messages: its owner makes the
// new member a copy (kCopy) while it serves on; the owner accepts no more, and says when all copies have everything
// (kHanded); the new one is appointed (kOwn) in a new *epoch*. Copies accept nothing of an owner of an earlier epoch,
// so a member that was given up although it lives can change nothing any more. When a member is lost, its slots go to
// their copies. A slot without a copy is then lost: clients are told so, for ever; it is never served empty.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/pool/assign.h"
#include "launcher/pool/message.h"

namespace dl::pool {

struct Post {
  MemberId to = 0;
  Message message;
};

class DirectoryCore {
 public:
  // first: with so many members the slots are divided for the first time. with_copies: as of assign().
  DirectoryCore(int slots, int first, bool with_copies)
      : slots_(static_cast<size_t>(slots)), first_(first), with_copies_(with_copies) {}

  MemberId join(const std::string& address);
  // The member shall end as soon as it holds nothing; the last one stays.
  void leave(MemberId member);
  // Its connection has ended.
  void lost(MemberId member);
  // A message of a member's. One that makes no sense is ignored.
  void take(MemberId member, const Message& message);

  // Has slots copied again that their owners could not save. To be called now and then.
  void copy_again();

  // What is to be sent, in this order; each is returned once.
  std::vector<Post> posts();

  Table table() const;
  uint64_t version() const { return version_; }
  // Those that are not about to leave, oldest first.
  std::vector<MemberId> staying() const;
  bool has(MemberId member) const { return members_.count(member) != 0; }
  // Slots that are moving or being copied, or should be.
  int unsettled() const;
  // Slots that have been given from one living member to another, and that were lost.
  uint64_t moved() const { return moved_; }
  int lost_slots() const;

 private:
  struct Member {
    std::string address;
    bool leaving = false;
  };
  // kAppointing: until the new owner confirms. Until then no copy is dropped.
  enum class Step { kNone, kCopying, kHanding, kAppointing };
  // A copy that its owner was told to drop, and that may not have heard of it yet.
  struct Fading {
    MemberId member = 0;
    uint64_t number = 0;  // of the order
  };
  struct Slot {
    MemberId owner = 0;
    uint64_t epoch = 0;
    std::vector<MemberId> copies;
    std::vector<Fading> fading;
    Wish wish;
    Step step = Step::kNone;
    MemberId to = 0;      // of the step
    uint64_t number = 0;  // of the order that the step waits for
    uint64_t asked = 0;   // the plan in which that order was given
    uint64_t heard = 0;   // the latest plan after which the owner confirmed that it owns the slot
    bool lost = false;
    bool cannot_copy = false;  // its owner could not save it, so it stays where it is, until copy_again()
  };

  void tell_members();
  void plan();
  void advance();
  void advance(uint32_t at);
  void appoint(uint32_t at, MemberId member, const std::vector<MemberId>& copies);
  void owner_lost(uint32_t at);
  template <typename Is>
  static void dropped(Slot* slot, const Is& is);
  void let_go();
  void post(MemberId to, Kind kind, uint32_t slot, MemberId member = 0, uint64_t number = 0);

  std::vector<Slot> slots_;
  int first_;
  bool with_copies_;
  bool begun_ = false;
  std::map<MemberId, Member> members_;
  std::map<MemberId, int> busy_;  // steps under way, by owner
  MemberId next_id_ = 1;
  uint64_t next_number_ = 1, version_ = 1, moved_ = 0, plans_ = 0;
  std::vector<Post> posts_;
};

}  // namespace dl::pool
