// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace dl::metrics {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reversed

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t by_instruction(std::string_view data) {
  uint64_t crc = 0xffffffff;
  const char* at = data.data();
  size_t left = data.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto narrow = static_cast<uint32_t>(crc);
  for (; left > 0; ++at, --left) narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(*at));
  return ~narrow;
}
#endif

}  // namespace

uint32_t crc32c_by_table(std::string_view data) {
  uint32_t crc = 0xffffffff;
  for (const char c : data) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint32_t crc32c(std::string_view data) {
#if defined(__x86_64__)
  static const bool kHas = __builtin_cpu_supports("sse4.2") != 0;
  if (kHas) return by_instruction(data);
#endif
  return crc32c_by_table(data);
}

}  // namespace dl::metrics
