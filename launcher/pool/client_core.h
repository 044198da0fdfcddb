// SPDX-License-Identifier: Apache-2.0
// A client's side of a pool: where to send each call, what to do when a slot has moved or a member is gone, and the
// numbers by which no update is applied twice. Without I/O, clocks or threads.
//
// One call of a slot is under way at a time, so that a slot carries out a client's calls in their order, also while it
// moves. Calls of different slots are under way together.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "launcher/pool/message.h"

namespace dl::pool {

struct Call {
  Kind kind = Kind::kUpdate;  // or kRead
  std::string key, bytes;
  AnswerStatus status = AnswerStatus::kDone;
  std::string answer;  // or the sentence of kFailed
};

struct ClientPost {
  MemberId to = 0;  // 0: the directory
  Message message;
};

class ClientCore {
 public:
  // id: random, so that no other client of the pool ever has it.
  ClientCore(uint64_t id, int slots) : id_(id), slots_(static_cast<size_t>(slots)) {}

  // The calls stay where they are until done().
  void begin(std::vector<Call>* calls);
  // Has every slot that was updated forget this client. Nothing may be begun afterwards.
  void farewell();
  bool done() const { return open_ == 0; }

  void table(const Message& message, int64_t now_ms);
  void answered(const Message& message, int64_t now_ms);
  // The connection to the member (0: the directory) has ended, or could not be made. Where that does not show, since
  // the member hangs or its host is gone, the table does: due() asks for it while an answer is late.
  void broken(MemberId member, int64_t now_ms);

  // What is to be sent now.
  std::vector<ClientPost> due(int64_t now_ms);
  // Until when due() has nothing more, if nothing comes. -1: for ever.
  int64_t next_ms() const;

  // The address of a member; nullptr if the table has none.
  const std::string* address(MemberId member) const;

 private:
  struct Slot {
    std::deque<Call*> calls;  // the first is under way, or waits for retry_ms
    MemberId owner = 0, sent_to = 0;
    uint64_t epoch = 0, table_epoch = 0;  // of the owner: what was heard last, and what the table said
    uint64_t question = 0;                // 0: the first call is not under way
    uint64_t sent_epoch = 0;              // in which it was sent
    int64_t sent_ms = 0;
    uint64_t updates = 0;   // the number of the last update that was sent
    bool numbered = false;  // the first call has that number
    bool lost = false;
    int64_t retry_ms = 0;
    int pauses = 0;
  };
  void finish(Slot* slot, AnswerStatus status, std::string bytes);
  void pause(Slot* slot, int64_t now_ms);
  bool is_in_vain(const Slot& slot, MemberId owner, uint64_t epoch) const;
  void want_table() { want_table_ = true; }

  uint64_t id_;
  std::vector<Slot> slots_;
  std::map<MemberId, std::string> members_;
  std::map<uint64_t, uint32_t> questions_;  // to the slot
  std::vector<Call> farewells_;
  uint64_t next_question_ = 1;
  size_t open_ = 0;
  bool want_table_ = true, table_asked_ = false;
  uint64_t version_ = 0;  // of the table
  int64_t table_ms_ = 0;  // before it the table is not asked for again
  int64_t table_pause_ms_ = 1;
};

}  // namespace dl::pool
