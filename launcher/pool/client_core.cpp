// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/client_core.h"

#include <algorithm>
#include <utility>

namespace dl::pool {
namespace {

// Between two questions for the table: doubled as long as it stays the same. Many clients may wait for a directory that
// waits for its first members.
constexpr int64_t kTablePauseMs = 2, kMostTablePauseMs = 100;
constexpr int64_t kNoDirectoryPauseMs = 20;
constexpr int64_t kLateMs = 1000;  // an answer that takes so long may never come, so the table is asked for
constexpr int kMostPauses = 5;     // pauses double from 1 ms so many times

}  // namespace

void ClientCore::begin(std::vector<Call>* calls) {
  const int slots = static_cast<int>(slots_.size());
  for (Call& call : *calls) slots_[static_cast<size_t>(slot_of(call.key, slots))].calls.push_back(&call);
  open_ += calls->size();
}

void ClientCore::farewell() {
  std::vector<Slot*> updated;
  for (Slot& slot : slots_)
    if (slot.updates > 0 && !slot.lost) updated.push_back(&slot);
  farewells_.resize(updated.size());
  for (size_t i = 0; i < updated.size(); ++i) {
    farewells_[i].kind = Kind::kFarewell;
    updated[i]->calls.push_back(&farewells_[i]);
  }
  open_ += updated.size();
}

const std::string* ClientCore::address(MemberId member) const {
  const auto found = members_.find(member);
  return found == members_.end() ? nullptr : &found->second;
}

void ClientCore::table(const Message& message, int64_t now_ms) {
  table_asked_ = false;
  const auto table = read_table(message.bytes);
  const bool is_new = table && std::exchange(version_, table->version) != table->version;
  table_pause_ms_ = is_new ? kTablePauseMs : std::min(2 * table_pause_ms_, kMostTablePauseMs);
  table_ms_ = now_ms + table_pause_ms_;
  if (!table || table->owners.size() != slots_.size()) return;
  want_table_ = false;
  members_.clear();
  for (const Peer& member : table->members) members_[member.id] = member.address;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.lost = table->lost[i];
    if (slot.question != 0 && is_in_vain(slot, table->owners[i].first, table->owners[i].second)) {
      questions_.erase(slot.question);
      slot.question = 0;
      slot.retry_ms = now_ms;
    }
    // A member may have told of a later owner than the table knew when it was written; or of one that is gone since.
    if (table->owners[i].second < slot.epoch && address(slot.owner) != nullptr) continue;
    slot.owner = table->owners[i].first;
    slot.epoch = slot.table_epoch = table->owners[i].second;
  }
}

// Whether the slot has another owner than the one that was asked, as the table says.
bool ClientCore::is_in_vain(const Slot& slot, MemberId owner, uint64_t epoch) const {
  if (address(slot.sent_to) == nullptr || epoch > slot.sent_epoch) return true;
  return epoch == slot.sent_epoch && owner != slot.sent_to;
}

void ClientCore::finish(Slot* slot, AnswerStatus status, std::string bytes) {
  Call* call = slot->calls.front();
  call->status = status;
  call->answer = std::move(bytes);
  // What was refused was not applied, so its number is free.
  if (slot->numbered && (status == AnswerStatus::kFull || status == AnswerStatus::kWrong)) --slot->updates;
  slot->calls.pop_front();
  slot->question = 0;
  slot->numbered = false;
  slot->pauses = 0;
  slot->retry_ms = 0;
  --open_;
}

void ClientCore::pause(Slot* slot, int64_t now_ms) {
  slot->question = 0;
  // A hand-over that a member announced may have been cancelled: trust the table again.
  slot->epoch = slot->table_epoch;
  slot->retry_ms = now_ms + (int64_t{1} << slot->pauses);
  slot->pauses = std::min(slot->pauses + 1, kMostPauses);
  want_table();
}

void ClientCore::answered(const Message& message, int64_t now_ms) {
  const auto found = questions_.find(message.number);
  if (found == questions_.end()) return;  // of a connection that was given up
  Slot& slot = slots_[found->second];
  questions_.erase(found);
  if (slot.question != message.number) return;
  const auto status = static_cast<AnswerStatus>(message.status);
  if (status != AnswerStatus::kMoved) return finish(&slot, status, message.bytes);
  if (message.member != 0 && message.epoch > slot.epoch) {
    slot.owner = message.member;
    slot.epoch = message.epoch;
    slot.question = 0;
    slot.retry_ms = now_ms;
    if (address(slot.owner) == nullptr) want_table();
    return;
  }
  pause(&slot, now_ms);
}

void ClientCore::broken(MemberId member, int64_t now_ms) {
  if (member == 0) {
    table_asked_ = false;
    table_ms_ = now_ms + kNoDirectoryPauseMs;
    return;
  }
  for (Slot& slot : slots_) {
    if (slot.question == 0 || slot.sent_to != member) continue;
    questions_.erase(slot.question);
    pause(&slot, now_ms);
  }
}

std::vector<ClientPost> ClientCore::due(int64_t now_ms) {
  std::vector<ClientPost> posts;
  if (done()) return posts;
  bool late = false;
  for (uint32_t at = 0; at < slots_.size(); ++at) {
    Slot& slot = slots_[at];
    while (slot.lost && !slot.calls.empty() && slot.question == 0) finish(&slot, AnswerStatus::kGap, {});
    if (slot.question != 0 && now_ms - slot.sent_ms >= kLateMs) late = true;
    if (slot.calls.empty() || slot.question != 0 || now_ms < slot.retry_ms) continue;
    if (address(slot.owner) == nullptr) {
      want_table();
      continue;
    }
    const Call& call = *slot.calls.front();
    Message message;
    message.kind = call.kind;
    message.slot = at;
    message.client = id_;
    if (call.kind != Kind::kRead) {
      if (!slot.numbered) ++slot.updates;
      slot.numbered = true;
      message.epoch = slot.updates;
    }
    message.number = slot.question = next_question_++;
    message.key = call.key;
    message.bytes = call.bytes;
    slot.sent_to = slot.owner;
    slot.sent_epoch = slot.epoch;
    slot.sent_ms = now_ms;
    questions_[message.number] = at;
    posts.push_back({slot.owner, std::move(message)});
  }
  if (late && now_ms >= table_ms_ + kLateMs) want_table();
  if (want_table_ && !table_asked_ && now_ms >= table_ms_ && !done()) {
    Message question;
    question.kind = Kind::kTableAsked;
    posts.push_back({0, std::move(question)});
    table_asked_ = true;
    if (now_ms >= table_ms_ + kMostTablePauseMs) table_pause_ms_ = kTablePauseMs;  // it was asked for something else
  }
  return posts;
}

int64_t ClientCore::next_ms() const {
  int64_t next = -1;
  const auto earlier = [&](int64_t at) { next = next < 0 ? at : std::min(next, at); };
  if (done()) return next;
  if (want_table_ && !table_asked_) earlier(table_ms_);
  for (const Slot& slot : slots_) {
    if (slot.question != 0 && !table_asked_) earlier(std::max(slot.sent_ms, table_ms_) + kLateMs);
    // One without an owner waits for a table.
    const bool can_be_sent = slot.lost || address(slot.owner) != nullptr;
    if (slot.question == 0 && !slot.calls.empty() && can_be_sent) earlier(slot.retry_ms);
  }
  return next;
}

}  // namespace dl::pool
