// SPDX-License-Identifier: Apache-2.0
#include "launcher/pmix/messages.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "common/base/base64.h"
#include "common/base/parse.h"
#include "common/json/json_members.h"
#include "launcher/protocol/typed_message.h"

namespace dl::pmix {

Json to_json(const Bytes& bytes) {
  return to_base64(bytes.bytes);
}
void from_json(const Json& json, Bytes* bytes) {
  auto read = from_base64(json.text());
  if (!read) throw JsonError("the bytes of a PMIx message are not in base64");
  bytes->bytes = *std::move(read);
}

void members(Job& m, JsonMembers& each) {
  each("space", m.space)("node", m.node)("nodes", m.nodes)("ranks", m.ranks);
}
void members(FencePart& m, JsonMembers& each) {
  each("id", m.id)("data", m.data);
}
void members(Lost& m, JsonMembers& each) {
  each("rank", m.rank)("exit", m.exit);
}
void members(Ready& m, JsonMembers& each) {
  each("version", m.version)("learners", m.learners);
}
void members(Failed& m, JsonMembers& each) {
  each("text", m.text);
}
void members(Client& m, JsonMembers& each) {
  each("rank", m.rank)("connected", m.connected);
}
void members(Fence& m, JsonMembers& each) {
  each("id", m.id)("kind", m.kind)("ranks", m.ranks)("data", m.data);
}
void members(Abort& m, JsonMembers& each) {
  each("id", m.id)("rank", m.rank)("status", m.status)("text", m.text);
}
void members(Entry& m, JsonMembers& each) {
  each("key", m.key)("data", m.data)("rank", m.rank);
}
void members(Publish& m, JsonMembers& each) {
  each("id", m.id)("rank", m.rank)("entries", m.entries);
}
void members(Lookup& m, JsonMembers& each) {
  each("id", m.id)("keys", m.keys)("wait", m.wait);
}
void members(Unpublish& m, JsonMembers& each) {
  each("id", m.id)("rank", m.rank)("keys", m.keys);
}
void members(Refused& m, JsonMembers& each) {
  each("rank", m.rank)("what", m.what);
}
void members(Get& m, JsonMembers& each) {
  each("id", m.id)("rank", m.rank);
}
void members(Got& m, JsonMembers& each) {
  each("id", m.id)("status", m.status)("data", m.data);
}
void members(Event& m, JsonMembers& each) {
  each("code", m.code)("rank", m.rank)("range", m.range)("data", m.data)("count", m.count);
}
void members(Done& m, JsonMembers& each) {
  each("id", m.id)("status", m.status);
}
void members(Found& m, JsonMembers& each) {
  each("id", m.id)("status", m.status)("entries", m.entries);
}

namespace {

// Names of PmixMessage's alternatives, in their order.
constexpr const char* kTypes[] = {"job",   "part",  "lost",    "ready",  "failed",    "client",
                                  "fence", "abort", "publish", "lookup", "unpublish", "refused",
                                  "get",   "got",   "event",   "done",   "found"};

constexpr size_t kMaxVariables = 256;
constexpr size_t kMaxValue = 64 << 10;

bool good(const Bytes& data) {
  return data.bytes.size() <= kMaxData;
}
bool good_text(const std::string& text) {
  return text.size() <= kMaxText && text.find('\0') == std::string::npos;
}
bool good_key(const std::string& key) {
  return !key.empty() && good_text(key);
}
bool good_rank(int rank) {
  return rank >= 0 && rank < kMaxRank;
}
bool good_ranks(const std::vector<int>& ranks) {
  return ranks.size() <= static_cast<size_t>(kMaxRank) && std::all_of(ranks.begin(), ranks.end(), good_rank) &&
         std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end();
}
bool good_keys(const std::vector<std::string>& keys) {
  return keys.size() <= kMaxEntries && std::all_of(keys.begin(), keys.end(), good_key);
}
bool good_entries(const std::vector<Entry>& entries) {
  size_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.data.bytes.size();
  return entries.size() <= kMaxEntries && bytes <= kMaxData &&
         std::all_of(entries.begin(), entries.end(),
                     [](const Entry& e) { return good_key(e.key) && e.rank >= -1 && e.rank < kMaxRank; });
}

bool good(const Job& m) {
  return good_key(m.space) && m.nodes.size() == m.ranks.size() && m.node >= 0 &&
         static_cast<size_t>(m.node) < m.nodes.size() &&
         std::all_of(m.nodes.begin(), m.nodes.end(), [](const auto& name) { return is_plain_name(name); }) &&
         std::all_of(m.ranks.begin(), m.ranks.end(), [](const auto& r) { return !r.empty() && good_ranks(r); });
}
bool good(const FencePart& m) {
  return m.id > 0 && good(m.data);
}
bool good(const Lost& m) {
  return good_rank(m.rank);
}
bool good(const Ready& m) {
  return good_text(m.version) && std::all_of(m.learners.begin(), m.learners.end(), [](const auto& environment) {
           return environment.size() <= kMaxVariables &&
                  std::all_of(environment.begin(), environment.end(), [](const auto& variable) {
                    return good_key(variable.first) && variable.first.find('=') == std::string::npos &&
                           variable.second.size() <= kMaxValue && variable.second.find('\0') == std::string::npos;
                  });
         });
}
bool good(const Failed& m) {
  return good_text(m.text);
}
bool good(const Client& m) {
  return good_rank(m.rank);
}
bool good(const Fence& m) {
  return m.id > 0 && (m.kind == "fence" || m.kind == "connect" || m.kind == "disconnect") && good_ranks(m.ranks) &&
         good(m.data);
}
bool good(const Abort& m) {
  return m.id > 0 && good_rank(m.rank) && good_text(m.text);
}
bool good(const Publish& m) {
  return m.id > 0 && good_rank(m.rank) && good_entries(m.entries);
}
bool good(const Lookup& m) {
  return m.id > 0 && good_keys(m.keys);
}
bool good(const Unpublish& m) {
  return m.id > 0 && good_rank(m.rank) && good_keys(m.keys);
}
bool good(const Refused& m) {
  return good_rank(m.rank) && good_text(m.what);
}
bool good(const Get& m) {
  return m.id > 0 && good_rank(m.rank);
}
bool good(const Got& m) {
  return m.id > 0 && good(m.data);
}
bool good(const Event& m) {
  return good_rank(m.rank) && good(m.data) && m.count >= 0 && static_cast<size_t>(m.count) <= kMaxEntries;
}
bool good(const Done& m) {
  return m.id > 0;
}
bool good(const Found& m) {
  return m.id > 0 && good_entries(m.entries);
}

}  // namespace

std::string encode(const PmixMessage& message) {
  return protocol::encode_typed(message, kTypes);
}

Result<PmixMessage> decode(const std::string& text) {
  auto message = protocol::decode_typed<PmixMessage>(text, kTypes);
  if (!message) return std::move(message).error().with_context("PMIx");
  if (!std::visit([](const auto& m) { return good(m); }, *message))
    return Error{Errc::kInvalid,
                 std::string("PMIx message '") + kTypes[message->index()] + "' with a value out of range"};
  return message;
}

}  // namespace dl::pmix
