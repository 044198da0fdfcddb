// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/member_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/little_endian.h"

namespace dl::pool {
namespace {

// kInstall: the state of the object, led by its size, and the table of applied updates.
std::string write_state(const std::string& state, const Once& once) {
  std::string bytes;
  put_little(&bytes, state.size(), 8);
  bytes += state;
  once.write(&bytes);
  return bytes;
}

}  // namespace

std::vector<MemberPost> MemberCore::posts() {
  return std::exchange(posts_, {});
}

bool MemberCore::owns(int slot) const {
  const Slot& s = slots_[static_cast<size_t>(slot)];
  return s.role == Role::kOwner && !s.frozen;
}

void MemberCore::report(Kind kind, uint32_t slot, uint64_t number, uint8_t status) {
  Message message;
  message.kind = kind;
  message.status = status;
  message.slot = slot;
  message.number = number;
  posts_.push_back({MemberPost::To::kDirectory, 0, std::move(message)});
}

// The directory.

void MemberCore::from_directory(const Message& message) {
  if (message.kind == Kind::kWelcome) id_ = message.member;
  if (message.kind == Kind::kMembers) members_are(message);
  if (message.kind == Kind::kBye) bye_ = true;
  if (message.slot >= slots_.size()) return;
  Slot& slot = slots_[message.slot];
  switch (message.kind) {
    case Kind::kOwn:
      return own(message, &slot);
    case Kind::kProbe:
      if (slot.role == Role::kOwner) report(Kind::kOwned, message.slot, message.number);
      return;
    case Kind::kCopy:
      return copy_to(message, &slot);
    case Kind::kDropCopy: {
      if (slot.role != Role::kOwner) return;
      slot.targets.erase(message.member);
      Message order;
      order.kind = Kind::kForget;
      order.slot = message.slot;
      order.epoch = slot.epoch;
      slot.drops.push_back({message.member, send(message.member, std::move(order)), message.number});
      return release(message.slot);
    }
    case Kind::kHand:
      if (slot.role != Role::kOwner) return;
      slot.frozen = true;
      slot.hand = message.number;
      slot.heir = message.member;
      return release(message.slot);
    case Kind::kResume:
      if (slot.role != Role::kOwner) return;
      slot.frozen = false;
      slot.hand = 0;
      return;
    case Kind::kForget:
      slot.least_epoch = std::max(slot.least_epoch, message.epoch + 1);
      if (slot.epoch > message.epoch) return;
      fenced(message.slot);
      return forget(message.slot);
    default:
      return;
  }
}

void MemberCore::members_are(const Message& message) {
  auto members = read_members(message.bytes);
  if (!members) return;
  members_ = std::move(*members);
  const auto gone = [this](MemberId peer) {
    return std::none_of(members_.begin(), members_.end(), [peer](const Peer& member) { return member.id == peer; });
  };
  for (auto stream = streams_.begin(); stream != streams_.end();)
    stream = gone(stream->first) ? streams_.erase(stream) : std::next(stream);
  for (uint32_t at = 0; at < slots_.size(); ++at) {
    auto& targets = slots_[at].targets;
    const size_t before = targets.size();
    for (auto target = targets.begin(); target != targets.end();)
      target = gone(target->first) ? targets.erase(target) : std::next(target);
    if (targets.size() != before) release(at);
  }
}

void MemberCore::own(const Message& message, Slot* slot) {
  const auto copies = read_ids(message.bytes);
  if (!copies || message.epoch <= slot->epoch) return;
  slot->role = Role::kOwner;
  slot->epoch = message.epoch;
  slot->frozen = false;
  slot->hand = 0;
  slot->targets.clear();
  for (const MemberId copy : *copies)
    if (std::any_of(members_.begin(), members_.end(), [copy](const Peer& member) { return member.id == copy; }))
      slot->targets[copy] = {};
  report(Kind::kOwned, message.slot, message.number);
}

void MemberCore::copy_to(const Message& message, Slot* slot) {
  if (slot->role != Role::kOwner) return;
  auto state = object_->save(static_cast<int>(message.slot));
  if (!state && state.error().code == Errc::kInternal) {
    failure_ = state.error().text;
    return;
  }
  Message whole;
  whole.kind = Kind::kInstall;
  whole.slot = message.slot;
  whole.epoch = slot->epoch;
  if (state) whole.bytes = write_state(*state, slot->once);
  // The slot is served on from here, also if that is for good: it would be lost with this member.
  if (!state || whole.bytes.size() > kMostState) return report(Kind::kCopied, message.slot, message.number, 1);
  slot->targets[message.member] = {message.number, send(message.member, std::move(whole))};
}

void MemberCore::forget(uint32_t at) {
  Slot& slot = slots_[at];
  if (slot.role == Role::kNone) return;
  slot.role = Role::kNone;
  slot.once = {};
  slot.targets.clear();
  object_->drop(static_cast<int>(at));
}

// Other members.

uint64_t MemberCore::send(MemberId peer, Message message) {
  Stream& stream = streams_[peer];
  message.number = stream.next++;
  stream.sent.push_back(message);
  posts_.push_back({MemberPost::To::kMember, peer, std::move(message)});
  return stream.next - 1;
}

void MemberCore::again(MemberId peer) {
  const auto found = streams_.find(peer);
  if (found == streams_.end()) return;
  for (const Message& message : found->second.sent) posts_.push_back({MemberPost::To::kMember, peer, message});
}

bool MemberCore::accepts(const Message& message, const Slot& slot) const {
  if (message.epoch < slot.least_epoch || message.epoch < slot.epoch) return false;
  return slot.role != Role::kOwner || message.epoch > slot.epoch;
}

Message MemberCore::from_member(const Message& message) {
  Message ack;
  ack.kind = Kind::kAck;
  ack.number = message.number;
  ack.status = 1;
  if (message.slot >= slots_.size()) return ack;
  Slot& slot = slots_[message.slot];
  if (!accepts(message, slot)) return ack;
  bool done = false;
  if (message.kind == Kind::kInstall) done = install(message, &slot);
  if (message.kind == Kind::kForward) done = forward(message, &slot);
  if (message.kind == Kind::kForget) {
    slot.least_epoch = message.epoch;
    fenced(message.slot);
    forget(message.slot);
    done = true;
  }
  ack.status = done ? 0 : failure_.empty() ? 1 : 2;
  return ack;
}

bool MemberCore::install(const Message& message, Slot* slot) {
  const std::string_view bytes = message.bytes;
  if (bytes.size() < 8) return false;
  const uint64_t size = get_little(bytes, 0, 8);
  if (size > bytes.size() - 8) return false;
  auto once = Once::read(bytes.substr(8 + static_cast<size_t>(size)));
  if (!once) return false;
  fenced(message.slot);
  if (Status loaded = object_->load(static_cast<int>(message.slot), bytes.substr(8, static_cast<size_t>(size)));
      !loaded) {
    failure_ = loaded.error().text;
    return false;
  }
  slot->role = Role::kCopy;
  slot->epoch = message.epoch;
  slot->once = std::move(once).value();
  return true;
}

// After a connection was opened anew, updates that this member holds already may come again.
bool MemberCore::forward(const Message& message, Slot* slot) {
  if (slot->role == Role::kNone || message.bytes.size() < 8) return false;
  if (slot->role == Role::kOwner) fenced(message.slot);
  const uint64_t number = get_little(message.bytes, 0, 8);
  const std::string_view bytes = std::string_view(message.bytes).substr(8);
  const bool farewell = message.status == 1;
  switch (slot->once.judge(message.client, number)) {
    case Once::Verdict::kApply:
      if (farewell)
        slot->once.forget(message.client);
      else
        slot->once.note(message.client, number,
                        answer_of(object_->apply(static_cast<int>(message.slot), message.key, bytes)));
      break;
    case Once::Verdict::kRepeat:
    case Once::Verdict::kOld:
      break;
    default:
      if (farewell) break;
      return false;
  }
  slot->role = Role::kCopy;
  slot->epoch = message.epoch;
  return true;
}

// Somebody else was appointed. Clients whose answers wait ask there, where the update is applied if it was not.
void MemberCore::fenced(uint32_t at) {
  Slot& slot = slots_[at];
  for (Pending& pending : slot.pending) {
    Message answer = answer_to(pending.answer, AnswerStatus::kMoved);
    answer.number = pending.answer.number;
    posts_.push_back({MemberPost::To::kLink, pending.link, std::move(answer)});
  }
  slot.pending.clear();
  slot.targets.clear();
  slot.drops.clear();
  slot.frozen = false;
  slot.hand = 0;
  if (slot.role == Role::kOwner) slot.role = Role::kCopy;
}

void MemberCore::acknowledged(MemberId peer, const Message& ack) {
  const auto found = streams_.find(peer);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  std::set<uint32_t> slots;
  while (!stream.sent.empty() && stream.sent.front().number <= ack.number) {
    const Message sent = std::move(stream.sent.front());
    stream.sent.pop_front();
    slots.insert(sent.slot);
    if (sent.number == ack.number && ack.status != 0 && sent.kind != Kind::kForget) refused(peer, sent, ack.status);
    stream.done = sent.number;
  }
  for (const uint32_t at : slots) reach(peer, stream.done, at);
}

// What was waiting for that message of the stream to the peer.
void MemberCore::reach(MemberId peer, uint64_t done, uint32_t at) {
  Slot& slot = slots_[at];
  const auto target = slot.targets.find(peer);
  if (target != slot.targets.end() && target->second.order != 0 && done >= target->second.install) {
    report(Kind::kCopied, at, target->second.order);
    target->second.order = 0;
  }
  for (const Drop& drop : slot.drops)
    if (drop.peer == peer && drop.message <= done) report(Kind::kDropped, at, drop.order);
  slot.drops.erase(std::remove_if(slot.drops.begin(), slot.drops.end(),
                                  [&](const Drop& drop) { return drop.peer == peer && drop.message <= done; }),
                   slot.drops.end());
  release(at);
}

// Status 1: the copy knows of a later owner, so this one has nothing to say any more, even if the directory has not
// told it. 2: the copy is about to end, because its object cannot hold the slot.
void MemberCore::refused(MemberId peer, const Message& sent, int status) {
  Slot& slot = slots_[sent.slot];
  const auto target = slot.targets.find(peer);
  if (slot.role != Role::kOwner || target == slot.targets.end()) return;
  // One that was repeated, of a time before the peer had to forget the slot and got it again.
  if (sent.number < target->second.install) return;
  if (status == 1)
    fenced(sent.slot);
  else
    slot.targets.erase(target);
}

// Clients.

Message MemberCore::answer_to(const Message& question, AnswerStatus status) {
  Message answer;
  answer.kind = Kind::kAnswer;
  answer.status = static_cast<uint8_t>(status);
  answer.slot = question.slot;
  answer.number = question.number;
  return answer;
}

Message MemberCore::moved(const Message& question, const Slot& slot) {
  Message answer = answer_to(question, AnswerStatus::kMoved);
  if (slot.frozen) {
    answer.member = slot.heir;
    answer.epoch = slot.epoch + 1;
  }
  return answer;
}

Answer MemberCore::answer_of(Result<Answer> answer) {
  if (answer) return std::move(*answer);
  failure_ = answer.error().text;
  return {true, {}};
}

void MemberCore::from_client(uint64_t link, const Message& message) {
  const auto reply = [&](Message answer) { posts_.push_back({MemberPost::To::kLink, link, std::move(answer)}); };
  const int slots = static_cast<int>(slots_.size());
  if (message.slot >= slots_.size() ||
      (message.kind != Kind::kFarewell && slot_of(message.key, slots) != static_cast<int>(message.slot)))
    return reply(answer_to(message, AnswerStatus::kWrong));
  Slot& slot = slots_[message.slot];
  if (slot.role != Role::kOwner || slot.frozen) return reply(moved(message, slot));
  if (message.kind != Kind::kRead) return update(link, message, &slot);
  Answer read = answer_of(object_->read(static_cast<int>(message.slot), message.key, message.bytes));
  Message answer = answer_to(message, read.failed ? AnswerStatus::kFailed : AnswerStatus::kDone);
  answer.bytes = std::move(read.bytes);
  // Not before the copies have what was read, which could otherwise be lost after somebody saw it.
  answer_when_safe(message.slot, {link, std::move(answer), {}});
}

void MemberCore::update(uint64_t link, const Message& message, Slot* slot) {
  const auto refuse = [&](AnswerStatus status) {
    posts_.push_back({MemberPost::To::kLink, link, answer_to(message, status)});
  };
  const bool farewell = message.kind == Kind::kFarewell;
  Pending pending{link, answer_to(message, AnswerStatus::kDone), {}};
  switch (slot->once.judge(message.client, message.epoch)) {
    case Once::Verdict::kGap:
      // A farewell that is repeated finds nothing any more.
      if (!farewell) return refuse(AnswerStatus::kGap);
      break;
    case Once::Verdict::kFull:
      return refuse(AnswerStatus::kFull);
    case Once::Verdict::kOld:
      return refuse(AnswerStatus::kOld);
    case Once::Verdict::kApply:
      if (farewell)
        slot->once.forget(message.client);
      else
        slot->once.note(message.client, message.epoch,
                        answer_of(object_->apply(static_cast<int>(message.slot), message.key, message.bytes)));
      pending.needs = pass_on(message, *slot);
      break;
    case Once::Verdict::kRepeat:
      break;
  }
  if (!farewell) {
    const Answer& last = slot->once.last(message.client);
    if (last.failed) pending.answer.status = static_cast<uint8_t>(AnswerStatus::kFailed);
    pending.answer.bytes = last.bytes;
  }
  answer_when_safe(message.slot, std::move(pending));
}

std::vector<MemberCore::Need> MemberCore::pass_on(const Message& message, const Slot& slot) {
  std::vector<Need> needs;
  if (slot.targets.empty()) return needs;
  Message forward;
  forward.kind = Kind::kForward;
  forward.status = message.kind == Kind::kFarewell ? 1 : 0;
  forward.slot = message.slot;
  forward.epoch = slot.epoch;
  forward.client = message.client;
  forward.key = message.key;
  put_little(&forward.bytes, message.epoch, 8);
  forward.bytes += message.bytes;
  for (const auto& [peer, target] : slot.targets) needs.push_back({peer, send(peer, forward)});
  return needs;
}

// Answers of a slot keep their order: so a repeated or a read one waits for the updates before it.
void MemberCore::answer_when_safe(uint32_t at, Pending pending) {
  slots_[at].pending.push_back(std::move(pending));
  release(at);
}

void MemberCore::release(uint32_t at) {
  Slot& slot = slots_[at];
  const auto has_come = [&](const Need& need) {
    const auto stream = streams_.find(need.peer);
    return slot.targets.count(need.peer) == 0 || stream == streams_.end() || stream->second.done >= need.number;
  };
  while (!slot.pending.empty()) {
    Pending& first = slot.pending.front();
    if (!std::all_of(first.needs.begin(), first.needs.end(), has_come)) break;
    posts_.push_back({MemberPost::To::kLink, first.link, std::move(first.answer)});
    slot.pending.pop_front();
  }
  if (slot.hand != 0 && slot.pending.empty()) report(Kind::kHanded, at, std::exchange(slot.hand, 0));
}

}  // namespace dl::pool
