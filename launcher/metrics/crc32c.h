// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of our series and of TensorBoard's event files. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace dl::metrics {

// Uses the processor's instruction for it, if it has one.
uint32_t crc32c(std::string_view data);
// The same without that instruction; for tests.
uint32_t crc32c_by_table(std::string_view data);

}  // namespace dl::metrics
