// SPDX-License-Identifier: Apache-2.0
// What a member of a pool does with each message: it applies updates, passes them on to copies, answers when all copies
// have them, and carries out the directory's orders. Without I/O, clocks or threads; directory_core.h has the rules.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "launcher/pool/message.h"
#include "launcher/pool/object.h"
#include "launcher/pool/once.h"

namespace dl::pool {

struct MemberPost {
  enum class To { kDirectory, kMember, kLink };
  To to = To::kDirectory;
  uint64_t id = 0;  // the member, or the link to a client
  Message message;
};

class MemberCore {
 public:
  MemberCore(Object* object, int slots) : object_(object), slots_(static_cast<size_t>(slots)) {}

  void from_directory(const Message& message);
  // kInstall, kForward or kForget of another member; returns the kAck.
  Message from_member(const Message& message);
  void acknowledged(MemberId peer, const Message& ack);
  // kUpdate, kRead or kFarewell. link: any number by which the caller knows to whom the answer goes.
  void from_client(uint64_t link, const Message& message);
  // The connection to the peer is a new one: what it has not acknowledged is posted again.
  void again(MemberId peer);

  // What is to be sent, in this order; each is returned once.
  std::vector<MemberPost> posts();

  MemberId id() const { return id_; }
  const std::vector<Peer>& members() const { return members_; }
  bool may_end() const { return bye_; }
  // Not empty: the object has failed, so this member must end, and nothing that it posts may be sent any more; its
  // copies take over.
  const std::string& failure() const { return failure_; }

  // For tests.
  bool owns(int slot) const;
  bool holds(int slot) const { return slots_[static_cast<size_t>(slot)].role != Role::kNone; }
  const Once& once(int slot) const { return slots_[static_cast<size_t>(slot)].once; }

 private:
  enum class Role { kNone, kOwner, kCopy };
  struct Need {
    MemberId peer = 0;
    uint64_t number = 0;
  };
  // An answer that waits until all copies have what it tells of.
  struct Pending {
    uint64_t link = 0;
    Message answer;
    std::vector<Need> needs;
  };
  struct Target {
    uint64_t order = 0;    // the number of kCopy; 0: complete
    uint64_t install = 0;  // the number of the message that makes it complete
  };
  // A kForget on its way.
  struct Drop {
    MemberId peer = 0;
    uint64_t message = 0;  // its number in the stream
    uint64_t order = 0;    // the number of kDropCopy
  };
  struct Slot {
    Role role = Role::kNone;
    uint64_t epoch = 0;
    uint64_t least_epoch = 0;  // of an install that is accepted
    Once once;
    std::map<MemberId, Target> targets;
    std::deque<Pending> pending;
    bool frozen = false;
    std::vector<Drop> drops;
    uint64_t hand = 0;  // the number of kHand, until it is carried out
    MemberId heir = 0;
  };
  // What has been sent to another member and is not acknowledged.
  struct Stream {
    uint64_t next = 1, done = 0;
    std::deque<Message> sent;
  };

  void members_are(const Message& message);
  void own(const Message& message, Slot* slot);
  void copy_to(const Message& message, Slot* slot);
  void forget(uint32_t at);
  bool accepts(const Message& message, const Slot& slot) const;
  bool install(const Message& message, Slot* slot);
  bool forward(const Message& message, Slot* slot);
  void update(uint64_t link, const Message& message, Slot* slot);
  Answer answer_of(Result<Answer> answer);
  std::vector<Need> pass_on(const Message& message, const Slot& slot);
  uint64_t send(MemberId peer, Message message);
  void answer_when_safe(uint32_t at, Pending pending);
  void release(uint32_t at);
  void fenced(uint32_t at);
  void reach(MemberId peer, uint64_t done, uint32_t at);
  void refused(MemberId peer, const Message& sent, int status);
  void report(Kind kind, uint32_t slot, uint64_t number, uint8_t status = 0);
  static Message answer_to(const Message& question, AnswerStatus status);
  static Message moved(const Message& question, const Slot& slot);

  Object* object_;
  std::vector<Slot> slots_;
  MemberId id_ = 0;
  std::vector<Peer> members_;
  std::map<MemberId, Stream> streams_;
  std::vector<MemberPost> posts_;
  bool bye_ = false;
  std::string failure_;
};

}  // namespace dl::pool
