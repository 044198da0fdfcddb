// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/tf_record.h"

#include "common/base/little_endian.h"
#include "launcher/metrics/crc32c.h"

namespace dl::metrics {

uint32_t masked_crc32c(std::string_view data) {
  constexpr uint32_t kAdded = 0xa282ead8;
  const uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + kAdded;
}

RecordScan scan_records(std::string_view bytes, const std::function<void(std::string_view)>& take) {
  RecordScan scan;
  for (;;) {
    const std::string_view rest = bytes.substr(scan.used);
    scan.needed = 0;
    if (rest.size() < kTfRecordHead) return scan;
    const auto length = get_little(rest, 0, 8);
    if (get_little(rest, 8, 4) != masked_crc32c(rest.substr(0, 8)) || length > kMostRecordBytes) {
      scan.damaged = true;
      return scan;
    }
    scan.needed = kTfRecordHead + length + kTfRecordTail;
    if (rest.size() < scan.needed) return scan;
    const std::string_view data = rest.substr(kTfRecordHead, length);
    if (get_little(rest, kTfRecordHead + length, 4) == masked_crc32c(data))
      take(data);
    else
      ++scan.wrong;
    scan.used += scan.needed;
  }
}

}  // namespace dl::metrics
