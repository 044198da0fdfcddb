// SPDX-License-Identifier: Apache-2.0
#include "launcher/pmix/messages.h"

#include <nettle/base64.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "launcher/common/parse.h"

namespace dl::pmix {

using nlohmann::json;

void to_json(json& out, const Bytes& bytes) {
  out = to_base64(bytes.bytes);
}
void from_json(const json& in, Bytes& bytes) {
  auto read = from_base64(in.get_ref<const std::string&>());
  if (!read) throw std::invalid_argument(read.error().text);
  bytes.bytes = *std::move(read);
}

#define DL_MESSAGE(...) NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(__VA_ARGS__)
DL_MESSAGE(Job, space, node, nodes, ranks)
DL_MESSAGE(FencePart, id, data)
DL_MESSAGE(Lost, rank, exit)
DL_MESSAGE(Ready, version, learners)
DL_MESSAGE(Failed, text)
DL_MESSAGE(Client, rank, connected)
DL_MESSAGE(Fence, id, kind, ranks, data)
DL_MESSAGE(Abort, id, rank, status, text)
DL_MESSAGE(Entry, key, data, rank)
DL_MESSAGE(Publish, id, rank, entries)
DL_MESSAGE(Lookup, id, keys, wait)
DL_MESSAGE(Unpublish, id, rank, keys)
DL_MESSAGE(Refused, rank, what)
DL_MESSAGE(Get, id, rank)
DL_MESSAGE(Got, id, status, data)
DL_MESSAGE(Event, code, rank, range, data, count)
DL_MESSAGE(Done, id, status)
DL_MESSAGE(Found, id, status, entries)
#undef DL_MESSAGE

namespace {

// Names in the order of Message's alternatives.
constexpr const char* kTypes[] = {"job",   "part",  "lost",    "ready",  "failed",    "client",
                                  "fence", "abort", "publish", "lookup", "unpublish", "refused",
                                  "get",   "got",   "event",   "done",   "found"};
static_assert(std::size(kTypes) == std::variant_size_v<Message>);

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

template <size_t I = 0>
Result<Message> decode_as(const std::string& type, const json& object) {
  if constexpr (I == std::variant_size_v<Message>) {
    return Error{Errc::kUnsupported, "unknown PMIx message '" + printable(type) + "'"};
  } else {
    if (type != kTypes[I]) return decode_as<I + 1>(type, object);
    return Message(std::in_place_index<I>, object.get<std::variant_alternative_t<I, Message>>());
  }
}

}  // namespace

std::string encode(const Message& message) {
  json object = std::visit([](const auto& m) { return json(m); }, message);
  object["type"] = kTypes[message.index()];
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Message> decode(const std::string& text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return Error{Errc::kInvalid, "PMIx message is not a JSON object"};
  const auto type = object.find("type");
  if (type == object.end() || !type->is_string()) return Error{Errc::kInvalid, "PMIx message without a type"};
  try {
    DL_TRY_ASSIGN(Message message, decode_as(type->get<std::string>(), object));
    if (!std::visit([](const auto& m) { return good(m); }, message))
      return Error{Errc::kInvalid, "PMIx message '" + type->get<std::string>() + "' with a value out of range"};
    return message;
  } catch (const std::exception& e) {  // a member of the wrong type
    return Error{Errc::kInvalid, std::string("malformed PMIx message: ") + e.what()};
  }
}

std::string to_base64(const std::string& bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_raw(text.data(), bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
  return text;
}

Result<std::string> from_base64(const std::string& text) {
  std::string bytes(BASE64_DECODE_LENGTH(text.size()), '\0');
  size_t size = bytes.size();
  base64_decode_ctx context{};
  base64_decode_init(&context);
  if (base64_decode_update(&context, &size, reinterpret_cast<uint8_t*>(bytes.data()), text.size(), text.data()) == 0 ||
      base64_decode_final(&context) == 0)
    return Error{Errc::kInvalid, "not base64"};
  bytes.resize(size);
  return bytes;
}

}  // namespace dl::pmix
