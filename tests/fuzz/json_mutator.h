// SPDX-License-Identifier: Apache-2.0
// Mutations of JSON that leave it JSON: blind ones nearly always end in the parser's first sentence.
#pragma once

#include <cstdint>
#include <string>

namespace dl::ckpt::fuzz {

// `text` with one to four values changed, doubled, moved or taken out; as it is where it is no JSON object. `seal`: it
// is a manifest, and gets the checksums that it should have then (of each file's blocks, and its own).
std::string mutate_json(const std::string& text, uint32_t seed, size_t max_size, bool seal);

// A cheap one for a manifest: one digit or letter is another, and its own checksum is put right.
std::string mutate_character(std::string text, uint32_t seed);

}  // namespace dl::ckpt::fuzz
