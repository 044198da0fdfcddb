// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/message.h"

#include "common/base/little_endian.h"

namespace dl::pool {
namespace {

// Reads numbers and texts one after another. After something that is not there, ok() is false for good.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  uint64_t number(size_t size) {
    if (!ok_ || rest_.size() < size) return fail();
    const uint64_t value = get_little(rest_, 0, size);
    rest_.remove_prefix(size);
    return value;
  }
  std::string_view text(uint64_t size, size_t most) {
    if (!ok_ || size > most || size > rest_.size()) {
      fail();
      return {};
    }
    const std::string_view text = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(text.size());
    return text;
  }
  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  uint64_t fail() {
    ok_ = false;
    return 0;
  }
  std::string_view rest_;
  bool ok_ = true;
};

constexpr size_t kMostAddress = 64;

void put_peers(const std::vector<Peer>& members, std::string* to) {
  put_little(to, members.size(), 4);
  for (const Peer& member : members) {
    put_little(to, member.id, 4);
    put_little(to, member.address.size(), 4);
    *to += member.address;
  }
}

std::vector<Peer> get_peers(Reader* reader) {
  std::vector<Peer> members;
  const uint64_t count = reader->number(4);
  for (uint64_t i = 0; i < count && i < kMostMembers && reader->ok(); ++i) {
    Peer peer;
    peer.id = static_cast<MemberId>(reader->number(4));
    peer.address = reader->text(reader->number(4), kMostAddress);
    members.push_back(std::move(peer));
  }
  if (count > kMostMembers) reader->text(kMostMembers, 0);
  return members;
}

}  // namespace

void encode(const Message& message, std::string* to) {
  put_little(to, kHeadBytes + message.key.size() + message.bytes.size(), 4);
  put_little(to, static_cast<uint64_t>(message.kind), 1);
  put_little(to, message.status, 1);
  put_little(to, message.slot, 4);
  put_little(to, message.member, 4);
  put_little(to, message.epoch, 8);
  put_little(to, message.client, 8);
  put_little(to, message.number, 8);
  put_little(to, message.key.size(), 4);
  *to += message.key;
  *to += message.bytes;
}

std::optional<Message> decode(std::string_view body) {
  Reader reader(body);
  Message message;
  const uint64_t kind = reader.number(1);
  if (kind < static_cast<uint64_t>(Kind::kJoin) || kind > static_cast<uint64_t>(Kind::kLast)) return std::nullopt;
  message.kind = static_cast<Kind>(kind);
  message.status = static_cast<uint8_t>(reader.number(1));
  message.slot = static_cast<uint32_t>(reader.number(4));
  message.member = static_cast<MemberId>(reader.number(4));
  message.epoch = reader.number(8);
  message.client = reader.number(8);
  message.number = reader.number(8);
  message.key = reader.text(reader.number(4), kMostKey);
  if (!reader.ok()) return std::nullopt;
  message.bytes = reader.rest();
  return message;
}

std::string write_members(const std::vector<Peer>& members) {
  std::string bytes;
  put_peers(members, &bytes);
  return bytes;
}

std::optional<std::vector<Peer>> read_members(std::string_view bytes) {
  Reader reader(bytes);
  std::vector<Peer> members = get_peers(&reader);
  if (!reader.done()) return std::nullopt;
  return members;
}

std::string write_ids(const std::vector<MemberId>& ids) {
  std::string bytes;
  for (const MemberId id : ids) put_little(&bytes, id, 4);
  return bytes;
}

std::optional<std::vector<MemberId>> read_ids(std::string_view bytes) {
  if (bytes.size() % 4 != 0 || bytes.size() / 4 > kMostMembers) return std::nullopt;
  std::vector<MemberId> ids;
  for (size_t at = 0; at < bytes.size(); at += 4) ids.push_back(static_cast<MemberId>(get_little(bytes, at, 4)));
  return ids;
}

std::string write_table(const Table& table) {
  std::string bytes;
  put_little(&bytes, table.version, 8);
  put_little(&bytes, table.ready ? 1 : 0, 1);
  put_peers(table.members, &bytes);
  put_little(&bytes, table.owners.size(), 4);
  for (size_t slot = 0; slot < table.owners.size(); ++slot) {
    put_little(&bytes, table.owners[slot].first, 4);
    put_little(&bytes, table.owners[slot].second, 8);
    put_little(&bytes, table.lost[slot] ? 1 : 0, 1);
  }
  return bytes;
}

std::optional<Table> read_table(std::string_view bytes) {
  Reader reader(bytes);
  Table table;
  table.version = reader.number(8);
  table.ready = reader.number(1) != 0;
  table.members = get_peers(&reader);
  const uint64_t slots = reader.number(4);
  if (slots > bytes.size()) return std::nullopt;
  for (uint64_t slot = 0; slot < slots && reader.ok(); ++slot) {
    const auto owner = static_cast<MemberId>(reader.number(4));
    table.owners.emplace_back(owner, reader.number(8));
    table.lost.push_back(reader.number(1) != 0);
  }
  if (!reader.done()) return std::nullopt;
  return table;
}

}  // namespace dl::pool
