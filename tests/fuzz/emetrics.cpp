// SPDX-License-Identifier: Apache-2.0
// Any line as a record of metrics, as programs write them themselves.
#include <cmath>
#include <set>

#include "common/json/json.h"
#include "launcher/metrics/emetrics.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

using namespace metrics;

Json number_json(double value) {
  if (std::isnan(value)) return Json("nan");
  if (std::isinf(value)) return Json(value > 0 ? "inf" : "-inf");
  return Json(value);
}

bool same(const Found& a, const Found& b) {
  return a.group == b.group && a.name == b.name && a.step == b.step && a.time_ms == b.time_ms &&
         (a.value == b.value || (std::isnan(a.value) && std::isnan(b.value)));
}

// Values of one record, written anew.
std::string record_of(const std::vector<Found>& values) {
  const Found& first = values.front();
  Json record = {{"grouplabel", first.group}};
  if (first.time_ms > 0) record["meta"] = Json{{"time", first.time_ms}};
  if (first.step != kNoStep) record["etimes"] = Json{{"iteration", first.step}};
  Json members = Json::object();
  for (const Found& one : values) members[one.name] = number_json(one.value);
  record["values"] = std::move(members);
  return record.dump();
}

}  // namespace

void emetrics(const uint8_t* data, size_t size) {
  const std::string line(reinterpret_cast<const char*>(data), size);
  std::vector<Found> found(1);
  const auto left_out = read_emetrics(line, &found);
  if (!left_out) {
    must(found.size() == 1, "of a line that is no record nothing is taken");
    return;
  }
  must(*left_out >= 0, "a number of records was left out");
  found.erase(found.begin());
  must(found.size() <= kMostOfRecord, "the values of a record are bounded");
  std::set<std::string> names;
  for (const Found& one : found) {
    must(!one.name.empty() && !one.group.empty() && one.step >= kNoStep && one.step <= kMostStep && one.time_ms >= 0,
         "a value has a name, a group, and a train step and a time that are ones");
    names.insert(one.name);
  }
  if (found.empty() || names.size() != found.size()) return;
  // Lines differ by more than what is taken of them.
  static FirstTime first_time;
  const std::string record = record_of(found);
  if (!first_time(record)) return;
  std::vector<Found> again;
  must(static_cast<bool>(read_emetrics(record, &again)) && again.size() == found.size(),
       "a record that is written again has as many values");
  for (size_t i = 0; i < found.size(); ++i)
    must(same(found[i], again[i]), "a record that is written again is the same");
}

}  // namespace dl::ckpt::fuzz
