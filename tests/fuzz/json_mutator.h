// SPDX-License-Identifier: Apache-2.0
// Changes JSON so that it stays JSON. Blind changes would nearly always end at the parser's first error.
#pragma once

#include <cstdint>
#include <string>

namespace dl::ckpt::fuzz {

// Returns `text` with one to four values changed, doubled, moved or removed; unchanged if it is not a JSON object.
// `seal`: the text is a manifest, and its checksums are made right again (of each file's blocks, and its own).
std::string mutate_json(const std::string& text, uint32_t seed, size_t max_size, bool seal);

// A cheap change for a manifest: replaces one digit or letter, and makes the manifest's own checksum right again.
std::string mutate_character(std::string text, uint32_t seed);

}  // namespace dl::ckpt::fuzz
