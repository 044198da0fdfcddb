// SPDX-License-Identifier: Apache-2.0
// Changes JSON so that it stays JSON. Blind changes would nearly always end at the parser's first error. The text
// itself is changed, not a document of nlohmann-json: to build one and to write it again took 16 to 46 us for inputs of
// 200 to 570 bytes, as long as an execution of the target, and this takes 1 to 3.5. A text can also have the same name
// twice in an object, or a number that no document holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace dl::ckpt::fuzz {

// The text with one to four values changed, doubled, moved or removed. Nothing if it is not JSON, if it nests deeper
// than a manifest ever does, or if the result would be larger than `max_size`.
std::optional<std::string> mutate_json(std::string text, uint32_t seed, size_t max_size);

// For texts of several parts, each of which has JSON behind its first `head` bytes. `end` stands between two parts.
struct Parts {
  char end;
  size_t head;
};
// Changes, doubles, moves or removes one part. Nothing: as above.
std::optional<std::string> mutate_parts(const std::string& text, const Parts& how, uint32_t seed, size_t max_size);
// Puts a part of `other` into the text. Nothing if there is no room.
std::optional<std::string> cross_parts(const std::string& text, const std::string& other, const Parts& how,
                                       uint32_t seed, size_t max_size);

// A cheap change for a manifest: replaces one digit or letter, and makes the manifest's own checksum right again.
std::string mutate_character(std::string text, uint32_t seed);
// Makes the checksums of a manifest right again: of each file's blocks, and its own.
std::string seal_manifest(const std::string& text);

}  // namespace dl::ckpt::fuzz
