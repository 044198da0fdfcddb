// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/slots.h"

namespace dl::pool {

int slot_of(std::string_view key, int slots) {
  uint64_t sum = 14695981039346656037U;  // FNV-1a
  for (const char byte : key) sum = (sum ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  // Its lowest bits follow the last bytes of keys such as "block/17" too closely.
  sum ^= sum >> 33;
  sum *= 0xff51afd7ed558ccdU;
  sum ^= sum >> 33;
  return static_cast<int>(sum % static_cast<uint64_t>(slots));
}

}  // namespace dl::pool
