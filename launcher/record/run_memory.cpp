// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/run_memory.h"

#include <algorithm>
#include <tuple>

#include "launcher/record/event_log.h"

namespace dl::record {
namespace {

auto all_of(const RunMemory& m) {
  return std::tie(m.restarts, m.class_restarts, m.moved, m.left_out, m.lost, m.excluded, m.fence_unix_ms, m.store_host,
                  m.stop, m.decided);
}
auto all_of(const AcceptedStop& s) {
  return std::tie(s.cause, s.who, s.signal, s.deadline_ms, s.hold);
}

Error bad(const char* member) {
  return Error{Errc::kInvalid, std::string("an event has a memory whose '") + member + "' is wrong or missing"};
}

template <typename Number>
Status take_number(const Json& json, const char* name, Number* out) {
  const Json* member = json.find(name);
  if (member == nullptr) return {};
  if (!member->is_number_integer()) return bad(name);
  *out = member->get<Number>();
  return {};
}

Status take_text(const Json& json, const char* name, std::string* out) {
  const Json* member = json.find(name);
  if (member == nullptr) return {};
  if (!member->is_string()) return bad(name);
  *out = member->text();
  return {};
}

Status take_names(const Json& json, const char* name, std::vector<std::string>* out) {
  const Json* names = json.find(name);
  if (names == nullptr) return {};
  const auto is_text = [](const Json& each) { return each.is_string(); };
  if (!names->is_array() || !std::all_of(names->begin(), names->end(), is_text)) return bad(name);
  for (const Json& each : *names) out->push_back(each.text());
  return {};
}

Json to_json(const AcceptedStop& stop) {
  Json json = Json::object();
  json["cause"] = stop.cause;
  json["who"] = stop.who;
  if (stop.signal != 0) json["signal"] = stop.signal;
  if (stop.deadline_ms != 0) json["deadline_ms"] = stop.deadline_ms;
  if (stop.hold) json["hold"] = true;
  return json;
}

Result<AcceptedStop> stop_from(const Json& json) {
  if (!json.is_object()) return bad("stop");
  AcceptedStop stop;
  DL_TRY(take_text(json, "cause", &stop.cause));
  DL_TRY(take_text(json, "who", &stop.who));
  DL_TRY(take_number(json, "signal", &stop.signal));
  DL_TRY(take_number(json, "deadline_ms", &stop.deadline_ms));
  if (const Json* hold = json.find("hold"); hold != nullptr) {
    if (!hold->is_boolean()) return bad("hold");
    stop.hold = hold->get<bool>();
  }
  if (stop.cause.empty()) return bad("cause");
  return stop;
}

}  // namespace

bool operator==(const AcceptedStop& a, const AcceptedStop& b) {
  return all_of(a) == all_of(b);
}

bool operator==(const RunMemory& a, const RunMemory& b) {
  return all_of(a) == all_of(b);
}

Json to_json(const RunMemory& memory) {
  Json json = Json::object();
  if (memory.restarts != 0) json["restarts"] = memory.restarts;
  if (!memory.class_restarts.empty()) json["class_restarts"] = memory.class_restarts;
  if (memory.moved != 0) json["moved"] = memory.moved;
  if (!memory.left_out.empty()) json["left_out"] = memory.left_out;
  if (!memory.lost.empty()) json["lost"] = memory.lost;
  if (!memory.excluded.empty()) json["excluded"] = memory.excluded;
  if (memory.fence_unix_ms != 0) json["fence_ms"] = memory.fence_unix_ms;
  if (!memory.store_host.empty()) json["store_host"] = memory.store_host;
  if (memory.stop) json["stop"] = to_json(*memory.stop);
  if (!memory.decided.empty()) json["decided"] = memory.decided;
  return json;
}

Result<RunMemory> memory_from(const Json& json) {
  if (!json.is_object()) return Error{Errc::kInvalid, "an event has a memory that is not a JSON object"};
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
  DL_TRY(take_names(json, "left_out", &memory.left_out));
  DL_TRY(take_names(json, "lost", &memory.lost));
  DL_TRY(take_text(json, "excluded", &memory.excluded));
  DL_TRY(take_text(json, "store_host", &memory.store_host));
  DL_TRY(take_text(json, "decided", &memory.decided));
  if (const Json* stop = json.find("stop"); stop != nullptr) {
    DL_TRY_ASSIGN(memory.stop, stop_from(*stop));
  }
  return memory;
}

RunMemory remembered(const std::vector<Event>& events) {
  for (auto event = events.rbegin(); event != events.rend(); ++event)
    if (event->memory) return *event->memory;
  return {};
}

}  // namespace dl::record
