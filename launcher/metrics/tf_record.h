// SPDX-License-Identifier: Apache-2.0
// The framing of TensorBoard's event files (TFRecord). A record is a uint64 length, the masked CRC-32C of these eight
// bytes, the data, and the masked CRC-32C of the data; little-endian. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace dl::metrics {

constexpr size_t kTfRecordHead = 12, kTfRecordTail = 4;
constexpr uint64_t kMostRecordBytes = uint64_t{1} << 40;  // of the data; a longer record is damage

// The checksum of records: rotated, and with a constant added, so that data with checksums in it has no usual one.
uint32_t masked_crc32c(std::string_view data);

struct RecordScan {
  size_t used = 0;       // bytes of the records that are whole, which are at the beginning
  uint64_t needed = 0;   // bytes that the record behind them takes in all; 0: its head is not whole
  int64_t wrong = 0;     // whole records whose data is damaged: passed over
  bool damaged = false;  // the length behind `used` is wrong: where the next record begins is not known
};

// Passes the data of each whole record to `take`.
RecordScan scan_records(std::string_view bytes, const std::function<void(std::string_view)>& take);

}  // namespace dl::metrics
