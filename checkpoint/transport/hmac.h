// SPDX-License-Identifier: Apache-2.0
// HMAC-SHA256 (RFC 2104, FIPS 180-4; nettle's implementation): with it two ranks prove to one another that they know
// the run's secret.
#pragma once

#include <array>
#include <string_view>

namespace dl::ckpt {

using Digest = std::array<unsigned char, 32>;

Digest hmac_sha256(std::string_view key, std::string_view bytes);
// Compares in a time that does not depend on the place of the first difference.
bool same_digest(const Digest& a, const Digest& b);

}  // namespace dl::ckpt
