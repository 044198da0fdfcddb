// SPDX-License-Identifier: Apache-2.0
// Changes bytes that hold lists of entries so that they stay lists: of blind changes most would cut an entry, or make a
// length or a count wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dl::ckpt::fuzz {

// How many entries a list has: as a number of four bytes in front of it says, all that follow, or one.
enum class Count { kTold, kAll, kOne };

struct List {
  Count count;
  const char* widths;  // of the numbers of an entry in bytes, a digit for each; little-endian
  bool text;           // the last of them says how many bytes of text follow
};

// Numbers, lists, and bytes without a form.
struct Form {
  const char* head;  // widths of the numbers
  std::vector<List> lists;
};

// One to four changes: of numbers, entries and texts. Counts and lengths are right afterwards, but for one of 32 or so.
// Nothing if the bytes do not have this form, or the result would be larger than `max_size`.
std::optional<std::string> mutate_entries(const std::string& bytes, const Form& form, uint32_t seed, size_t max_size);

}  // namespace dl::ckpt::fuzz
