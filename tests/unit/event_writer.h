// SPDX-License-Identifier: Apache-2.0
// Writes TensorBoard's event files, as PyTorch and TensorFlow do, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/little_endian.h"
#include "launcher/metrics/tf_record.h"

namespace dl::metrics::events {

inline std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
inline std::string key(uint64_t number, unsigned kind) {
  return varint(number << 3 | kind);
}
inline std::string number(uint64_t field, uint64_t value) {
  return key(field, 0) + varint(value);
}
inline std::string bytes(uint64_t field, const std::string& value) {
  return key(field, 2) + varint(value.size()) + value;
}
template <typename Number>
std::string raw(Number value) {
  std::string text(sizeof value, '\0');
  std::memcpy(text.data(), &value, sizeof value);  // little-endian, as the tests' machines are
  return text;
}
inline std::string fixed(uint64_t field, float value) {
  return key(field, 5) + raw(value);
}
inline std::string fixed(uint64_t field, double value) {
  return key(field, 1) + raw(value);
}

// Summary.Value with simple_value, as PyTorch writes it.
inline std::string simple(const std::string& tag, float value) {
  return bytes(1, tag) + fixed(2, value);
}
// Summary.Value with a tensor; `fields` are those of TensorProto behind its type.
inline std::string tensor(const std::string& tag, uint64_t type, const std::string& fields,
                          const std::string& plugin = "") {
  const std::string metadata = plugin.empty() ? "" : bytes(9, bytes(1, bytes(1, plugin)));
  return bytes(1, tag) + metadata + bytes(8, number(1, type) + bytes(2, "") + fields);
}
// Event with values of a summary.
inline std::string event(double wall_time, int64_t step, const std::string& value) {
  std::string text = fixed(1, wall_time);
  if (step != 0) text += number(2, static_cast<uint64_t>(step));
  return text + bytes(5, bytes(1, value));
}

inline std::string record(const std::string& data) {
  std::string head, tail;
  put_little(&head, data.size(), 8);
  put_little(&head, masked_crc32c(head), 4);
  put_little(&tail, masked_crc32c(data), 4);
  return head + data + tail;
}
// The record with which each file begins.
inline std::string version(double wall_time) {
  return record(fixed(1, wall_time) + bytes(3, "brain.Event:2"));
}

}  // namespace dl::metrics::events
