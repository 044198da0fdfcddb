// SPDX-License-Identifier: Apache-2.0
// What clients, members and the directory of a pool say to one another. Pure. All messages have the same form; which of
// its numbers mean something depends on the kind, and stands beside it.
//
// On a connection a message is: bytes that follow (u32), kind (u8), status (u8), slot (u32), member (u32), epoch (u64),
// client (u64), number (u64), bytes of the key (u32), the key, and the rest, which is `bytes`. Little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/pool/slots.h"

namespace dl::pool {

enum class Kind : uint8_t {
  // A member to the directory.
  kJoin = 1,  // bytes: the address on which it listens
  kWanted,    // number: members that the pool should have
  kLeave,     // it would like to end
  kCopied,    // slot, number: the copy that kCopy asked for is complete. status 1: there is none, the slot cannot be
              // saved
  kHanded,    // slot, number: kHand is carried out; it changes the slot no more
  kOwned,     // slot, number: kOwn or kProbe has arrived
  kDropped,   // slot, number: the copy that kDropCopy named is gone
  // The directory to a member.
  kWelcome,   // member: who it is
  kMembers,   // bytes: write_members() of all
  kOwn,       // slot, epoch, number, bytes: write_ids() of the copies. It owns the slot from now on
  kProbe,     // slot, number: to be answered by kOwned
  kCopy,      // slot, member, number: make that member a copy, and keep it one
  kDropCopy,  // slot, member, number
  kHand,      // slot, member, number: accept no more, and say when everybody has everything
  kResume,    // slot, number: cancels kHand
  kForget,    // slot, epoch: a copy that was made in this epoch or before is of no use; also from owner to copy
  kBye,       // it holds nothing any more, or the pool is closed: it may end
  // A member to another; number counts the messages from one to the other.
  kInstall,  // slot, epoch, bytes: write_state(): the slot as a whole
  kForward,  // slot, epoch, client, key, bytes: an update, led by its number at the client. status 1: a farewell
  kAck,      // number: that and all before are done. status 1: it was refused, 2: the object failed
  // A client to the directory.
  kTableAsked,
  kTable,  // bytes: write_table()
  // A client to a member.
  kUpdate,    // slot, client, epoch (the client's number of this update), number (of the question), key, bytes
  kRead,      // slot, number, key, bytes
  kFarewell,  // slot, client, epoch, number: as an update; the slot forgets the client
  kAnswer,    // number, status (AnswerStatus), slot, epoch, member, bytes
  kLast = kAnswer,
};

enum class AnswerStatus : uint8_t {
  kDone,
  kFailed,  // the object refused; bytes: its sentence
  kMoved,   // not the owner. member and epoch, if not 0: who is to own the slot, and in which epoch
  kGap,     // an earlier update of this client is missing: state was lost
  kFull,    // too many clients
  kOld,
  kWrong,  // the message makes no sense
};

struct Message {
  Kind kind = Kind::kAnswer;
  uint8_t status = 0;
  uint32_t slot = 0;
  MemberId member = 0;
  uint64_t epoch = 0, client = 0, number = 0;
  std::string key, bytes;
};

constexpr size_t kMostKey = 1024;
constexpr size_t kMostBytes = size_t{64} << 20;               // of an update, a read or an answer
constexpr size_t kMostState = size_t{128} << 20;              // of one slot
constexpr size_t kHeadBytes = 1 + 1 + 4 + 4 + 8 + 8 + 8 + 4;  // after the length
constexpr size_t kMostMembers = 4096;

// Appends the message as it goes onto a connection.
void encode(const Message& message, std::string* to);
// What stands after the length; none if it is no message.
std::optional<Message> decode(std::string_view body);

struct Peer {
  MemberId id = 0;
  std::string address;  // HOST:PORT, the host numeric
};
std::string write_members(const std::vector<Peer>& members);
std::optional<std::vector<Peer>> read_members(std::string_view bytes);

std::string write_ids(const std::vector<MemberId>& ids);
std::optional<std::vector<MemberId>> read_ids(std::string_view bytes);

struct Table {
  uint64_t version = 0;
  std::vector<Peer> members;
  std::vector<std::pair<MemberId, uint64_t>> owners;  // of each slot, and since which epoch; 0: nobody yet
  bool ready = false;                                 // all slots have an owner, or had one and lost it
  std::vector<bool> lost;                             // slots whose state is gone
};
std::string write_table(const Table& table);
std::optional<Table> read_table(std::string_view bytes);

}  // namespace dl::pool
