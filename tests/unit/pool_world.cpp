// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pool_world.h"

#include <algorithm>

#include "common/base/little_endian.h"
#include "launcher/pool/slots.h"

namespace dl::pool {
namespace {

std::string as_bytes(uint32_t number) {
  std::string bytes;
  put_little(&bytes, number, 4);
  return bytes;
}

uint32_t as_number(std::string_view bytes) {
  return static_cast<uint32_t>(get_little(bytes, 0, 4));
}

}  // namespace

Result<Answer> LogObject::apply(int slot, std::string_view key, std::string_view bytes) {
  auto& log = logs[static_cast<size_t>(slot)][std::string(key)];
  log.push_back(as_number(bytes));
  return Answer{false, as_bytes(static_cast<uint32_t>(log.size()))};
}

Result<Answer> LogObject::read(int slot, std::string_view key, std::string_view /*bytes*/) {
  const auto& logs_of = logs[static_cast<size_t>(slot)];
  const auto found = logs_of.find(key);
  return Answer{false, as_bytes(found == logs_of.end() ? 0 : static_cast<uint32_t>(found->second.size()))};
}

Result<std::string> LogObject::save(int slot) {
  if (cannot_save) return Error{Errc::kUnsupported, "it cannot be saved now"};
  std::string bytes;
  for (const auto& [key, log] : logs[static_cast<size_t>(slot)]) {
    put_little(&bytes, key.size(), 4);
    bytes += key;
    put_little(&bytes, log.size(), 4);
    for (const uint32_t id : log) put_little(&bytes, id, 4);
  }
  return bytes;
}

Status LogObject::load(int slot, std::string_view bytes) {
  auto& mine = logs[static_cast<size_t>(slot)];
  mine.clear();
  while (!bytes.empty()) {
    const size_t size = as_number(bytes);
    auto& log = mine[std::string(bytes.substr(4, size))];
    bytes.remove_prefix(4 + size);
    const size_t count = as_number(bytes);
    for (size_t i = 0; i < count; ++i) log.push_back(as_number(bytes.substr(4 + 4 * i)));
    bytes.remove_prefix(4 + 4 * count);
  }
  return {};
}

World::World(const Settings& settings, uint64_t seed)
    : settings_(settings), random_(seed), directory_(settings.slots, settings.first, settings.with_copies) {
  for (int i = 0; i < settings.clients; ++i)
    clients_.push_back(std::make_unique<Client>(1000 + static_cast<uint64_t>(i), settings.slots));
  for (int i = 0; i < settings.first; ++i) join();
}

void World::join() {
  const MemberId id = directory_.join("m" + std::to_string(members_.size()));
  members_[id] = std::make_unique<Member>(settings_.slots);
  ++joined_;
}

void World::leave() {
  const auto staying = directory_.staying();
  if (staying.size() < 2) return;
  ++left_;
  directory_.leave(staying[random(static_cast<uint32_t>(staying.size()))]);
}

void World::kill(bool zombie) {
  const auto staying = directory_.staying();
  if (staying.empty() || (!settings_.wild && (staying.size() < 2 || directory_.unsettled() > 0))) return;
  // Nor while the directory has not heard of the last one.
  const bool unheard = std::any_of(queues_.begin(), queues_.end(), [](const auto& way) {
    return way.first.way == Way::kToDirectory && way.second.ended;
  });
  if (unheard && !settings_.wild) return;
  const MemberId id = staying[random(static_cast<uint32_t>(staying.size()))];
  if (members_.count(id) == 0 || members_[id]->given_up) return;
  ++killed_;
  if (zombie) {
    // The directory's connection is cut: it gives the member up, which notices much later.
    members_[id]->given_up = true;
    members_[id]->hangs = settings_.hangs;
    queues_.erase({Way::kToMember, 0, id});
    queues_.erase({Way::kToDirectory, id, 0});
    directory_.lost(id);
    return;
  }
  // What it sent last may or may not have left it.
  for (auto entry = queues_.begin(); entry != queues_.end();) {
    const WayId& way = entry->first;
    Queue& queue = entry->second;
    if (way.from == id &&
        (way.way == Way::kToDirectory || way.way == Way::kStream || way.way == Way::kAck || way.way == Way::kAnswer))
      queue.messages.resize(random(static_cast<uint32_t>(queue.messages.size()) + 1));
    entry = queue.messages.empty() && !queue.ended ? queues_.erase(entry) : std::next(entry);
  }
  end(id);
  queues_[{Way::kToDirectory, id, 0}].ended = true;
}

// The process is gone; clients notice when they have read the rest.
void World::end(uint32_t member) {
  members_.erase(member);
  for (auto way = queues_.begin(); way != queues_.end();) {
    const bool to_it = (way->first.way == Way::kToMember || way->first.way == Way::kStream ||
                        way->first.way == Way::kAck || way->first.way == Way::kCall) &&
                       way->first.to == member;
    way = to_it ? queues_.erase(way) : std::next(way);
  }
  for (uint32_t i = 0; i < clients_.size(); ++i) queues_[{Way::kAnswer, member, i}].ended = true;
}

void World::reset() {
  ++were_reset_;
  if (random(2) == 0) {
    const auto client = random(static_cast<uint32_t>(clients_.size()));
    for (const auto& [id, member] : members_) {
      if (random(2) == 0) continue;
      queues_.erase({Way::kCall, client, id});
      queues_.erase({Way::kAnswer, id, client});
      clients_[client]->core.broken(id, now_ms_);
    }
    return;
  }
  for (const auto& [from, a] : members_)
    for (const auto& [to, b] : members_) {
      if (from == to || random(2) == 0) continue;
      queues_.erase({Way::kStream, from, to});
      queues_.erase({Way::kAck, to, from});
      a->core.again(to);
    }
}

// A member cannot save slots any more, or can again.
void World::fault() {
  if (!members_.empty()) {
    bool& cannot =
        std::next(members_.begin(), random(static_cast<uint32_t>(members_.size())))->second->object.cannot_save;
    if (cannot || faults_ < settings_.save_faults) {
      faults_ += cannot ? 0 : 1;
      cannot = !cannot;
    }
  }
  directory_.copy_again();
}

void World::call(uint32_t at) {
  Client& client = *clients_[at];
  if (!client.core.done() || client.made >= settings_.calls) return;
  client.call.clear();
  const int batch = 1 + static_cast<int>(random(3));
  for (int i = 0; i < batch; ++i) {
    Call call;
    call.key = "k" + std::to_string(random(5));
    call.kind = random(4) == 0 ? Kind::kRead : Kind::kUpdate;
    if (call.kind == Kind::kUpdate) call.bytes = as_bytes(next_update_++);
    client.call.push_back(call);
  }
  client.made += batch;
  client.core.begin(&client.call);
}

void World::finished(Client* client) {
  for (const Call& call : client->call) {
    if (call.status == AnswerStatus::kGap) {
      lost_keys_.insert(call.key);
    } else if (call.status != AnswerStatus::kDone) {
      wrong_ = "a call ended with status " + std::to_string(static_cast<int>(call.status));
    } else if (call.kind == Kind::kUpdate) {
      updates_.emplace_back(call.key, as_number(call.bytes));
      places_[{call.key, as_number(call.bytes)}] = as_number(call.answer);
    }
  }
  client->call.clear();
}

// Everything that somebody wants to send goes into the queues.
void World::flush() {
  for (Post& post : directory_.posts()) {
    if (members_.count(post.to) == 0) continue;
    if (members_[post.to]->given_up) continue;
    queues_[{Way::kToMember, 0, post.to}].messages.push_back(std::move(post.message));
  }
  for (auto& [id, member] : members_)
    for (MemberPost& post : member->core.posts()) {
      const auto to = static_cast<uint32_t>(post.id);
      if (post.to == MemberPost::To::kDirectory) {
        if (!member->given_up) queues_[{Way::kToDirectory, id, 0}].messages.push_back(std::move(post.message));
      } else if (post.to == MemberPost::To::kMember) {
        if (members_.count(to) != 0) queues_[{Way::kStream, id, to}].messages.push_back(std::move(post.message));
      } else {
        queues_[{Way::kAnswer, id, to}].messages.push_back(std::move(post.message));
      }
    }
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    Client& client = *clients_[i];
    if (client.core.done() && !client.call.empty()) finished(&client);
    for (ClientPost& post : client.core.due(now_ms_)) {
      if (post.to == 0)
        queues_[{Way::kTableAsked, i, 0}].messages.push_back(std::move(post.message));
      else if (members_.count(post.to) != 0)
        queues_[{Way::kCall, i, post.to}].messages.push_back(std::move(post.message));
      else
        client.core.broken(post.to, now_ms_);
    }
  }
}

void World::arrive(const WayId& id, const Message& message) {
  switch (id.way) {
    case Way::kToMember:
      members_.at(id.to)->core.from_directory(message);
      if (members_.at(id.to)->core.may_end()) end(id.to);
      return;
    case Way::kToDirectory:
      return directory_.take(id.from, message);
    case Way::kStream:
      queues_[{Way::kAck, id.to, id.from}].messages.push_back(members_.at(id.to)->core.from_member(message));
      return;
    case Way::kAck:
      return members_.at(id.to)->core.acknowledged(id.from, message);
    case Way::kCall:
      return members_.at(id.to)->core.from_client(id.from, message);
    case Way::kAnswer:
      return clients_[id.to]->core.answered(message, now_ms_);
    case Way::kTableAsked: {
      Message table;
      table.bytes = write_table(directory_.table());
      queues_[{Way::kTable, 0, id.from}].messages.push_back(std::move(table));
      return;
    }
    case Way::kTable:
      return clients_[id.to]->core.table(message, now_ms_);
  }
}

void World::closed(const WayId& id) {
  if (id.way == Way::kToDirectory) directory_.lost(id.from);
  if (id.way == Way::kAnswer) clients_[id.to]->core.broken(id.from, now_ms_);
}

bool World::reads(const WayId& id) const {
  const bool to_member =
      id.way == Way::kToMember || id.way == Way::kStream || id.way == Way::kAck || id.way == Way::kCall;
  const auto member = members_.find(id.to);
  return !to_member || member == members_.end() || !member->second->hangs;
}

bool World::deliver() {
  ready_.clear();
  for (auto way = queues_.begin(); way != queues_.end(); ++way)
    if (reads(way->first)) ready_.push_back(way);
  if (ready_.empty()) return false;
  const auto way = ready_[random(static_cast<uint32_t>(ready_.size()))];
  const WayId id = way->first;
  if (way->second.messages.empty()) {
    queues_.erase(way);
    closed(id);
    return true;
  }
  const Message message = std::move(way->second.messages.front());
  way->second.messages.pop_front();
  if (way->second.messages.empty() && !way->second.ended) queues_.erase(way);
  // An acknowledgement of a member that is gone may still arrive.
  if ((id.way == Way::kStream || id.way == Way::kAck || id.way == Way::kCall || id.way == Way::kToMember) &&
      members_.count(id.to) == 0)
    return true;
  arrive(id, message);
  return true;
}

void World::act() {
  switch (random(10)) {
    case 0:
      if (joined_ - settings_.first < settings_.joins) join();
      break;
    case 1:
      if (left_ < settings_.leaves) leave();
      break;
    case 2:
      if (killed_ < settings_.kills) kill(settings_.zombies && random(2) == 0);
      break;
    case 3:
      if (were_reset_ < settings_.resets) reset();
      break;
    case 4:  // one that was given up notices
      for (const auto& [id, member] : members_)
        if (member->given_up && !member->hangs) return end(id);
      break;
    default:
      call(random(static_cast<uint32_t>(clients_.size())));
  }
}

bool World::busy() const {
  return std::any_of(clients_.begin(), clients_.end(),
                     [this](const auto& client) { return !client->core.done() || client->made < settings_.calls; });
}

// No key has two owners: apart from a member that was given up, which gets no acknowledgement any more.
std::string World::wrong_now() const {
  for (int slot = 0; slot < settings_.slots; ++slot) {
    int owners = 0;
    for (const auto& [id, member] : members_)
      if (!member->given_up && member->core.owns(slot)) ++owners;
    if (owners > 1) return "slot " + std::to_string(slot) + " has two owners";
  }
  return {};
}

std::string World::wrong_at_end() const {
  const Table table = directory_.table();
  for (int slot = 0; slot < settings_.slots; ++slot) {
    const auto at = static_cast<size_t>(slot);
    if (table.lost[at]) continue;
    const auto owner = members_.find(table.owners[at].first);
    if (owner == members_.end() || !owner->second->core.owns(slot))
      return "slot " + std::to_string(slot) + " has no owner";
    int holders = 0;
    for (const auto& [id, member] : members_) {
      if (!member->core.holds(slot)) continue;
      ++holders;
      if (member->object.logs[at] != owner->second->object.logs[at]) return "a copy differs";
      if (!(member->core.once(slot) == owner->second->core.once(slot))) return "a copy of the table differs";
    }
    if (holders > 2) return "slot " + std::to_string(slot) + " is held by " + std::to_string(holders);
    if (settings_.with_copies && members_.size() > 1 && holders != 2)
      return "slot " + std::to_string(slot) + " has no copy";
    for (const auto& [key, log] : owner->second->object.logs[at]) {
      std::set<uint32_t> ids(log.begin(), log.end());
      if (ids.size() != log.size()) return "an update was applied twice";
    }
  }
  for (const auto& [key, id] : updates_) {
    const auto at = static_cast<size_t>(slot_of(key, settings_.slots));
    if (table.lost[at]) continue;
    const auto& logs = members_.at(table.owners[at].first)->object.logs[at];
    const auto log = logs.find(key);
    const uint32_t place = places_.at({key, id});
    if (log == logs.end() || log->second.size() < place || log->second[place - 1] != id)
      return "update " + std::to_string(id) + " of " + key + " was lost";
  }
  if (!lost_keys_.empty() && directory_.lost_slots() == 0) return "a client was told of a loss, and nothing is lost";
  if (!settings_.wild && directory_.lost_slots() > 0) return "a slot was lost";
  return {};
}

std::string World::run() {
  flush();
  while (busy() || directory_.unsettled() > 0) {
    if (++steps_ > 200000)
      return "it does not come to an end: " + std::to_string(directory_.unsettled()) + " slots unsettled, " +
             std::to_string(members_.size()) + " members, of them staying " +
             std::to_string(directory_.staying().size());
    if (random(8) == 0) act();
    if (settings_.save_faults > 0 && random(8) == 0) fault();
    if (random(4) == 0) ++now_ms_;
    if (!deliver()) ++now_ms_;
    flush();
    if (wrong_.empty()) wrong_ = wrong_now();
    if (!wrong_.empty()) return wrong_;
    if (settings_.wild && directory_.staying().empty()) join();  // somebody must be there to say what is lost
  }
  for (auto member = members_.begin(); member != members_.end();) {
    const auto next = std::next(member);
    if (member->second->given_up) end(member->first);
    member = next;
  }
  for (flush(); deliver(); flush()) {
  }
  return wrong_.empty() ? wrong_at_end() : wrong_;
}

}  // namespace dl::pool
