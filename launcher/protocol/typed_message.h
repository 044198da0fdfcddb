// SPDX-License-Identifier: Apache-2.0
// Writes and reads a message, a std::variant of structures with members() (common/json/json_members.h), as a JSON
// object that names the kind of the message in "type". The names stand in one table, in the order of the variant's
// alternatives.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include "common/base/parse.h"
#include "common/base/result.h"
#include "common/json/json_members.h"

namespace dl::protocol {

template <typename Message>
std::string encode_typed(const Message& message, const char* const (&types)[std::variant_size_v<Message>]) {
  Json object = std::visit([](const auto& m) { return json_of(m); }, message);
  object["type"] = types[message.index()];
  return object.dump();
}

// Throws JsonError for a member of another type.
template <typename Message, size_t I = 0>
Result<Message> read_typed(const std::string& type, const Json& object,
                           const char* const (&types)[std::variant_size_v<Message>]) {
  if constexpr (I == std::variant_size_v<Message>) {
    return Error{Errc::kUnsupported, "'" + printable(type) + "' is not a type of message that this program knows"};
  } else {
    if (type != types[I]) return read_typed<Message, I + 1>(type, object, types);
    std::variant_alternative_t<I, Message> message;
    read_json(object, &message);
    return Message(std::in_place_index<I>, std::move(message));
  }
}

// kUnsupported: this version does not know the kind. kInvalid: not a JSON object, one without a type, or a member has
// the wrong type.
template <typename Message>
Result<Message> decode_typed(const std::string& text, const char* const (&types)[std::variant_size_v<Message>]) {
  const Json object = Json::parse(text);
  if (!object.is_object()) return Error{Errc::kInvalid, "the message is not a JSON object"};
  const Json* type = object.find("type");
  if (type == nullptr || !type->is_string()) return Error{Errc::kInvalid, "the message has no 'type'"};
  try {
    return read_typed<Message>(type->text(), object, types);
  } catch (const JsonError& e) {
    return Error{Errc::kInvalid, std::string("the message is malformed: ") + e.what()};
  }
}

}  // namespace dl::protocol
