// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/scalar_events.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/little_endian.h"
#include "launcher/metrics/tf_record.h"

namespace dl::metrics {
namespace {

// The keys of the fields: their number, and behind it their kind.
constexpr char kWallTime = 1 << 3 | 1, kStepField = 2 << 3 | 0, kFileVersion = 3 << 3 | 2, kSummary = 5 << 3 | 2;
constexpr char kSummaryValue = 1 << 3 | 2, kTagField = 1 << 3 | 2, kSimpleValue = 2 << 3 | 5;

template <typename Bits, typename Number>
void put_number(std::string* to, Number value) {
  static_assert(sizeof(Bits) == sizeof(Number));
  Bits bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  put_little(to, bits, sizeof bits);
}

void put_varint(std::string* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

void put_text(std::string* to, char key, std::string_view text) {
  to->push_back(key);
  put_varint(to, text.size());
  *to += text;
}

std::string event_at(int64_t time_ms) {
  std::string event(1, kWallTime);
  put_number<uint64_t>(&event, static_cast<double>(time_ms) / 1000);
  return event;
}

std::string record_of(std::string_view data) {
  std::string record;
  record.reserve(kTfRecordHead + data.size() + kTfRecordTail);
  put_little(&record, data.size(), 8);
  put_little(&record, masked_crc32c(record), 4);
  record += data;
  put_little(&record, masked_crc32c(data), 4);
  return record;
}

float single(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(value) ? std::clamp(value, -kMost, kMost) : value);
}

}  // namespace

std::string events_begin(int64_t time_ms) {
  std::string event = event_at(time_ms);
  put_text(&event, kFileVersion, "brain.Event:2");
  return record_of(event);
}

std::string scalar_event(int64_t time_ms, int64_t step, std::string_view tag, double value) {
  std::string scalar;
  put_text(&scalar, kTagField, tag);
  scalar.push_back(kSimpleValue);
  put_number<uint32_t>(&scalar, single(value));
  std::string summary;
  put_text(&summary, kSummaryValue, scalar);
  std::string event = event_at(time_ms);
  if (step != 0) {  // what is left out is 0
    event.push_back(kStepField);
    put_varint(&event, static_cast<uint64_t>(step));
  }
  put_text(&event, kSummary, summary);
  return record_of(event);
}

}  // namespace dl::metrics
