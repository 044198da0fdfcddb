// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/directory_core.h"

#include <algorithm>
#include <utility>

namespace dl::pool {
namespace {

// More slots at a time would fill the memory of their owner with copies that wait to be sent.
constexpr int kStepsAtOnce = 16;

bool contains(const std::vector<MemberId>& ids, MemberId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}
void erase(std::vector<MemberId>* ids, MemberId id) {
  ids->erase(std::remove(ids->begin(), ids->end(), id), ids->end());
}

}  // namespace

void DirectoryCore::post(MemberId to, Kind kind, uint32_t slot, MemberId member, uint64_t number) {
  Message message;
  message.kind = kind;
  message.slot = slot;
  message.member = member;
  message.number = number;
  message.epoch = slots_[slot].epoch;
  posts_.push_back({to, std::move(message)});
}

std::vector<Post> DirectoryCore::posts() {
  return std::exchange(posts_, {});
}

MemberId DirectoryCore::join(const std::string& address) {
  const MemberId id = next_id_++;
  members_[id].address = address;
  Message welcome;
  welcome.kind = Kind::kWelcome;
  welcome.member = id;
  posts_.push_back({id, std::move(welcome)});
  tell_members();
  plan();
  return id;
}

void DirectoryCore::leave(MemberId member) {
  const auto found = members_.find(member);
  if (found == members_.end() || found->second.leaving) return;
  found->second.leaving = true;
  plan();
}

// Everybody hears of a newcomer before the first order that names it, and of one that is gone before others take over.
void DirectoryCore::tell_members() {
  Message message;
  message.kind = Kind::kMembers;
  message.bytes = write_members(table().members);
  ++version_;
  for (const auto& [id, member] : members_) posts_.push_back({id, message});
}

std::vector<MemberId> DirectoryCore::staying() const {
  std::vector<MemberId> ids;
  for (const auto& [id, member] : members_)
    if (!member.leaving) ids.push_back(id);
  return ids;
}

void DirectoryCore::plan() {
  const std::vector<MemberId> members = staying();
  if (!begun_ && static_cast<int>(members.size()) < first_) return let_go();
  // Nobody is there to whom those that are about to leave could give anything: all stays as it is.
  if (members.empty()) {
    for (Slot& slot : slots_) slot.wish = {slot.owner, slot.copies.empty() ? 0 : slot.copies.front()};
    return;
  }
  begun_ = true;
  ++plans_;
  std::vector<Held> now;
  now.reserve(slots_.size());
  for (const Slot& slot : slots_) now.push_back({slot.owner, slot.copies});
  std::map<MemberId, std::string> hosts;
  for (const MemberId id : members) {
    const std::string& address = members_[id].address;
    hosts[id] = address.substr(0, address.rfind(':'));
  }
  const std::vector<Wish> wishes = assign(now, members, with_copies_, hosts);
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].wish = wishes[i];
  advance();
}

void DirectoryCore::advance() {
  if (!begun_) return;
  for (uint32_t at = 0; at < slots_.size(); ++at) advance(at);
  let_go();
}

void DirectoryCore::advance(uint32_t at) {
  Slot& slot = slots_[at];
  if (slot.step != Step::kNone || slot.lost) return;
  if (slot.owner == 0) return appoint(at, slot.wish.owner, {});
  const auto begin = [&](Step step, Kind order, MemberId to) {
    if (busy_[slot.owner] >= kStepsAtOnce) return;
    ++busy_[slot.owner];
    slot.step = step;
    slot.to = to;
    slot.asked = plans_;
    slot.number = next_number_++;
    post(slot.owner, order, at, to, slot.number);
  };
  const Wish& wish = slot.wish;
  if (wish.owner != 0 && wish.owner != slot.owner) {
    if (!slot.fading.empty()) return;  // another owner would know nothing of these
    if (contains(slot.copies, wish.owner)) return begin(Step::kHanding, Kind::kHand, wish.owner);
    return slot.cannot_copy ? void() : begin(Step::kCopying, Kind::kCopy, wish.owner);
  }
  if (wish.copy != 0 && wish.copy != slot.owner && !contains(slot.copies, wish.copy))
    return slot.cannot_copy ? void() : begin(Step::kCopying, Kind::kCopy, wish.copy);
  // The last copy goes when its owner has shown that it lives: it may have died, and nobody has noticed yet.
  if (wish.copy == 0 && !slot.copies.empty() && slot.heard != plans_)
    return begin(Step::kAppointing, Kind::kProbe, slot.owner);
  // Superfluous copies are dropped once the wanted copy is complete.
  for (const MemberId copy : std::vector<MemberId>(slot.copies)) {
    if (copy == wish.copy) continue;
    slot.fading.push_back({copy, next_number_++});
    post(slot.owner, Kind::kDropCopy, at, copy, slot.fading.back().number);
    erase(&slot.copies, copy);
  }
}

void DirectoryCore::appoint(uint32_t at, MemberId member, const std::vector<MemberId>& copies) {
  Slot& slot = slots_[at];
  slot.owner = member;
  slot.cannot_copy = false;
  ++slot.epoch;
  slot.copies = copies;
  slot.step = Step::kAppointing;
  slot.to = member;
  slot.asked = plans_;
  slot.number = next_number_++;
  ++busy_[member];
  ++version_;
  post(member, Kind::kOwn, at, 0, slot.number);
  posts_.back().message.bytes = write_ids(copies);
}

void DirectoryCore::copy_again() {
  for (Slot& slot : slots_) slot.cannot_copy = false;
  advance();
}

void DirectoryCore::take(MemberId member, const Message& message) {
  if (!has(member)) return;
  if (message.kind == Kind::kLeave) return leave(member);
  if (message.slot >= slots_.size()) return;
  Slot& slot = slots_[message.slot];
  if (message.kind == Kind::kDropped && slot.owner == member) {
    dropped(&slot, [&](const Fading& fading) { return fading.number == message.number; });
    return advance();
  }
  // An order that was called off meanwhile has another number.
  if (slot.owner != member || slot.step == Step::kNone || slot.number != message.number) return;
  if (message.kind == Kind::kCopied && slot.step == Step::kCopying) {
    --busy_[slot.owner];
    slot.step = Step::kNone;
    if (message.status != 0)
      slot.cannot_copy = true;
    else if (!contains(slot.copies, slot.to))
      slot.copies.push_back(slot.to);
  } else if (message.kind == Kind::kOwned && slot.step == Step::kAppointing) {
    --busy_[slot.owner];
    slot.step = Step::kNone;
    slot.heard = slot.asked;
  } else if (message.kind == Kind::kHanded && slot.step == Step::kHanding) {
    --busy_[slot.owner];
    std::vector<MemberId> copies = slot.copies;
    erase(&copies, slot.to);
    copies.push_back(slot.owner);
    ++moved_;
    appoint(message.slot, slot.to, copies);
  } else {
    return;
  }
  advance();
}

template <typename Is>
void DirectoryCore::dropped(Slot* slot, const Is& is) {
  slot->fading.erase(std::remove_if(slot->fading.begin(), slot->fading.end(), is), slot->fading.end());
}

void DirectoryCore::lost(MemberId member) {
  if (members_.erase(member) == 0) return;
  busy_.erase(member);
  tell_members();  // owners wait for its acknowledgements no more
  for (uint32_t at = 0; at < slots_.size(); ++at) {
    Slot& slot = slots_[at];
    erase(&slot.copies, member);
    dropped(&slot, [member](const Fading& fading) { return fading.member == member; });
    if (slot.owner == member) {
      owner_lost(at);
    } else if (slot.step != Step::kNone && slot.to == member) {
      if (slot.step == Step::kHanding) post(slot.owner, Kind::kResume, at, 0, slot.number);
      --busy_[slot.owner];
      slot.step = Step::kNone;
    }
  }
  plan();
}

// Copies may differ in updates that were not answered yet. So one is chosen, and the others are made anew from it.
void DirectoryCore::owner_lost(uint32_t at) {
  Slot& slot = slots_[at];
  slot.step = Step::kNone;
  slot.fading.clear();
  ++version_;
  if (slot.copies.empty()) {
    slot.owner = 0;
    slot.lost = true;
    return;
  }
  const MemberId heir = contains(slot.copies, slot.wish.owner) ? slot.wish.owner : slot.copies.front();
  // The others discard their copies and refuse what the lost owner still sends.
  for (const auto& [id, member] : members_)
    if (id != heir) post(id, Kind::kForget, at);
  appoint(at, heir, {});
}

// Members that are to leave and hold nothing.
void DirectoryCore::let_go() {
  std::vector<MemberId> free;
  for (const auto& [id, member] : members_)
    if (member.leaving && members_.size() > 1) free.push_back(id);
  if (begun_ && !free.empty()) {
    for (const Slot& slot : slots_) {
      erase(&free, slot.owner);
      for (const MemberId copy : slot.copies) erase(&free, copy);
      for (const Fading& fading : slot.fading) erase(&free, fading.member);
      if (slot.step != Step::kNone) erase(&free, slot.to);
      if (free.empty()) return;
    }
  }
  for (const MemberId id : free) {
    if (members_.size() == 1) break;
    members_.erase(id);
    busy_.erase(id);
    Message bye;
    bye.kind = Kind::kBye;
    posts_.push_back({id, std::move(bye)});
  }
  if (!free.empty()) tell_members();
}

Table DirectoryCore::table() const {
  Table table;
  table.version = version_;
  table.ready = begun_;
  for (const auto& [id, member] : members_) table.members.push_back({id, member.address});
  for (const Slot& slot : slots_) {
    table.owners.emplace_back(slot.owner, slot.epoch);
    table.lost.push_back(slot.lost);
  }
  return table;
}

int DirectoryCore::unsettled() const {
  return static_cast<int>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return !slot.lost && (slot.step != Step::kNone || slot.owner != slot.wish.owner ||
                          (slot.wish.copy != 0 && !contains(slot.copies, slot.wish.copy)));
  }));
}

int DirectoryCore::lost_slots() const {
  return static_cast<int>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.lost; }));
}

}  // namespace dl::pool
