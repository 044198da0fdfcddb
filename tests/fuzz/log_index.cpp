// SPDX-License-Identifier: Apache-2.0
// Any bytes as the time index of logs, and any times and places to look for in it. The first byte is a rank, and its
// highest bit says whether a right header is put before the rest; two times, and an offset, follow.
#include "launcher/logs/log_index.h"

#include <algorithm>

#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

void log_index(const uint8_t* data, size_t size) {
  using namespace logs;
  constexpr int64_t kBase = 1'790'000'000'000;
  Bytes input(data, size);
  const uint8_t first = input.u8();
  const int rank = first & 0x7f;
  constexpr uint64_t kMostMs = 400'000'000'000;  // about the 13 years that an entry can tell
  int64_t early = kBase + static_cast<int64_t>(input.number(5) % kMostMs);
  int64_t late = kBase + static_cast<int64_t>(input.number(5) % kMostMs);
  const uint64_t offset = input.number(3);
  std::string text = input.rest();
  if ((first & 0x80) != 0) text.insert(0, index_header(kBase));
  if (early > late) std::swap(early, late);

  const std::string written = index_header(kBase) + index_entry(kBase, {late, rank, offset + 1});
  const auto one = LogIndex::parse(written);
  must(one && one->time_of(rank, offset) == late / kTimeUnitMs * kTimeUnitMs, "an entry is read as it was written");

  const auto index = LogIndex::parse(text);
  const std::string thin = thin_index(text);
  if (!index) return;
  const size_t torn = (text.size() - kIndexHeader) % kIndexEntry;
  const auto whole = LogIndex::parse(std::string_view(text).substr(0, text.size() - torn));
  must(whole && whole->first_ms() == index->first_ms() && whole->last_ms() == index->last_ms() &&
           whole->offset_at(rank, late) == index->offset_at(rank, late),
       "a torn last entry is left out");
  must(index->first_ms() <= index->last_ms(), "times are in order");
  must(index->offset_at(rank, early) <= index->offset_at(rank, late), "a later time is not at an earlier place");
  must(index->offset_at(rank, late) <= index->end_at(rank, late), "what is of a time begins before it ends");
  must(index->time_of(rank, offset) <= index->time_of(rank, offset + 1), "a later place is not of an earlier time");
  const auto thinned = LogIndex::parse(thin);
  must(thinned && thin.size() <= text.size(), "a thinned index is one, and no longer");
  must(thinned->knows(rank) == index->knows(rank), "of a rank that is known something stays");
}

}  // namespace dl::ckpt::fuzz
