// SPDX-License-Identifier: Apache-2.0
// The journal of a large file that is being fetched: the first byte says how large, the rest is the journal.
#include <algorithm>

#include "launcher/data/part_file.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

void data_journal(const uint8_t* data, size_t size) {
  constexpr const char* kBoot = "boot";
  Bytes input(data, size);
  const uint64_t bytes = input.u8() * (data::kChunkBytes / 4) + 1;
  const std::string text = input.rest();
  const data::Journal journal = data::parse_journal(text, bytes, kBoot);
  if (!journal.known) {
    must(!journal.same_boot && journal.chunks.empty(), "of another file's journal nothing is believed");
    return;
  }
  std::string again = data::journal_head(bytes, kBoot);
  for (const auto& [chunk, hash] : journal.chunks) {
    must(chunk * data::kChunkBytes < bytes, "a chunk lies within its file");
    again += data::journal_line(chunk, hash);
  }
  const data::Journal written = data::parse_journal(again, bytes, kBoot);
  must(written.known && written.same_boot && written.chunks == journal.chunks, "what was written again is the same");
  // As a kill leaves it.
  const data::Journal torn = data::parse_journal(std::string_view(text).substr(0, text.size() - 1), bytes, kBoot);
  must(torn.chunks.size() <= journal.chunks.size() &&
           std::equal(torn.chunks.begin(), torn.chunks.end(), journal.chunks.begin()),
       "a torn journal tells less, and nothing else");
}

}  // namespace dl::ckpt::fuzz
