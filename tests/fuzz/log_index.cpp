// SPDX-License-Identifier: Apache-2.0
// Any bytes as the time index of logs, and any times and places to look for in it. The first byte is a rank, and its
// highest bit says whether a right header is put before the rest; two times, and an offset, follow.
#include "launcher/logs/log_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

using namespace logs;

namespace {

constexpr int kRanks = 128;

// The ranks around those at which an index begins a new page, and the last one, are asked for, too.
int rank_of(int number) {
  constexpr int kFar[] = {1023, 1024, 2047, 2048, kMostRank - 1, kMostRank};
  constexpr int kNear = kRanks - static_cast<int>(std::size(kFar));
  return number < kNear ? number : kFar[number - kNear];
}

// What follows from the text of an index alone.
void thinned(const LogIndex& index, const std::string& text) {
  const std::string thin = thin_index(text);
  const auto rest = LogIndex::parse(thin);
  must(rest && thin.size() <= text.size(), "a thinned index is one, and no longer");
  for (int number = 0; number < kRanks; ++number)
    must(rest->knows(rank_of(number)) == index.knows(rank_of(number)), "of a rank that is known something stays");
  must(index.first_ms() <= index.last_ms(), "times are in order");
}

// An index, and the same without a torn last entry. They are kept, since what is asked of one changes more often.
struct Kept {
  std::string text = "none";
  std::optional<LogIndex> index, whole;
};

std::optional<LogIndex> parsed(std::string_view text) {
  auto index = LogIndex::parse(text);
  if (!index) return std::nullopt;
  return std::move(index).value();
}

const Kept& read(std::string text) {
  static Kept kept;
  if (text == kept.text) return kept;
  kept.text = std::move(text);
  kept.index = parsed(kept.text);
  kept.whole.reset();
  if (!kept.index) {
    must(thin_index(kept.text).empty() || kept.text.size() >= kIndexHeader, "what is no index is not thinned");
    return kept;
  }
  thinned(*kept.index, kept.text);
  if (const size_t torn = (kept.text.size() - kIndexHeader) % kIndexEntry; torn > 0) {
    kept.whole = parsed(std::string_view(kept.text).substr(0, kept.text.size() - torn));
    must(kept.whole && kept.whole->first_ms() == kept.index->first_ms() &&
             kept.whole->last_ms() == kept.index->last_ms(),
         "without a torn last entry an index begins and ends at the same times");
  }
  return kept;
}

}  // namespace

void log_index(const uint8_t* data, size_t size) {
  constexpr int64_t kBase = 1'790'000'000'000;
  Bytes input(data, size);
  const uint8_t first = input.u8();
  const int rank = rank_of(first % kRanks);
  constexpr uint64_t kMostMs = 400'000'000'000;  // about the 13 years that an entry can tell
  int64_t early = kBase + static_cast<int64_t>(input.number(5) % kMostMs);
  int64_t late = kBase + static_cast<int64_t>(input.number(5) % kMostMs);
  const uint64_t offset = input.number(3);
  std::string text = input.rest();
  if (first >= kRanks) text.insert(0, index_header(kBase));
  if (early > late) std::swap(early, late);

  const auto one = LogIndex::parse(index_header(kBase) + index_entry(kBase, {late, rank, offset + 1}));
  must(one && one->time_of(rank, offset) == late / kTimeUnitMs * kTimeUnitMs, "an entry is read as it was written");

  const Kept& kept = read(std::move(text));
  const std::optional<LogIndex>& index = kept.index;
  if (!index) return;
  if (kept.whole)
    must(kept.whole->offset_at(rank, late) == index->offset_at(rank, late), "a torn last entry is left out");
  must(index->offset_at(rank, early) <= index->offset_at(rank, late), "a later time is not at an earlier place");
  must(index->offset_at(rank, late) <= index->end_at(rank, late), "what is of a time begins before it ends");
  must(index->time_of(rank, offset) <= index->time_of(rank, offset + 1), "a later place is not of an earlier time");
}

}  // namespace dl::ckpt::fuzz
