// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/run_memory.h"

#include <algorithm>
#include <tuple>

#include "launcher/record/event_log.h"

namespace dl::record {
namespace {

auto all_of(const RunMemory& m) {
  return std::tie(m.restarts, m.class_restarts, m.moved, m.left_out, m.excluded, m.fence_unix_ms);
}

Error bad(const char* member) {
  return Error{Errc::kInvalid, std::string("event with a bad memory: '") + member + "'"};
}

template <typename Number>
Status take_number(const Json& json, const char* name, Number* out) {
  const Json* member = json.find(name);
  if (member == nullptr) return {};
  if (!member->is_number_integer()) return bad(name);
  *out = member->get<Number>();
  return {};
}

}  // namespace

bool operator==(const RunMemory& a, const RunMemory& b) {
  return all_of(a) == all_of(b);
}

Json to_json(const RunMemory& memory) {
  Json json = Json::object();
  if (memory.restarts != 0) json["restarts"] = memory.restarts;
  if (!memory.class_restarts.empty()) json["class_restarts"] = memory.class_restarts;
  if (memory.moved != 0) json["moved"] = memory.moved;
  if (!memory.left_out.empty()) json["left_out"] = memory.left_out;
  if (!memory.excluded.empty()) json["excluded"] = memory.excluded;
  if (memory.fence_unix_ms != 0) json["fence_ms"] = memory.fence_unix_ms;
  return json;
}

Result<RunMemory> memory_from(const Json& json) {
  if (!json.is_object()) return Error{Errc::kInvalid, "event with a memory that is no object"};
  RunMemory memory;
  DL_TRY(take_number(json, "restarts", &memory.restarts));
  DL_TRY(take_number(json, "moved", &memory.moved));
  DL_TRY(take_number(json, "fence_ms", &memory.fence_unix_ms));
  if (const Json* classes = json.find("class_restarts"); classes != nullptr) {
    if (!classes->is_object()) return bad("class_restarts");
    for (const JsonMember& member : classes->members()) {
      if (!member.value.is_number_integer()) return bad("class_restarts");
      memory.class_restarts[member.name] = member.value.get<int>();
    }
  }
  if (const Json* nodes = json.find("left_out"); nodes != nullptr) {
    const auto is_text = [](const Json& node) { return node.is_string(); };
    if (!nodes->is_array() || !std::all_of(nodes->begin(), nodes->end(), is_text)) return bad("left_out");
    for (const Json& node : *nodes) memory.left_out.push_back(node.text());
  }
  if (const Json* excluded = json.find("excluded"); excluded != nullptr) {
    if (!excluded->is_string()) return bad("excluded");
    memory.excluded = excluded->text();
  }
  return memory;
}

RunMemory remembered(const std::vector<Event>& events) {
  for (auto event = events.rbegin(); event != events.rend(); ++event)
    if (event->memory) return *event->memory;
  return {};
}

}  // namespace dl::record
