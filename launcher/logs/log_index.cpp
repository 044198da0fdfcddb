// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/log_index.h"

#include <algorithm>
#include <limits>

#include "common/base/little_endian.h"

namespace dl::logs {
namespace {

constexpr std::string_view kMagic = "DLLOGIX1";

bool is_index(std::string_view bytes) {
  return bytes.size() >= kIndexHeader && bytes.substr(0, kMagic.size()) == kMagic;
}

Mark entry_at(std::string_view bytes, size_t at, int64_t base_ms) {
  const uint64_t rank = get_little(bytes, at + 4, 4);
  return {base_ms + static_cast<int64_t>(get_little(bytes, at, 4)) * kTimeUnitMs,
          rank > kMostRank ? -1 : static_cast<int>(rank), get_little(bytes, at + 8, 8)};
}

}  // namespace

std::string index_header(int64_t base_ms) {
  std::string text(kMagic);
  put_little(&text, static_cast<uint64_t>(base_ms), 8);
  return text;
}

std::string index_entry(int64_t base_ms, const Mark& mark) {
  const int64_t units = std::max<int64_t>(0, mark.time_ms - base_ms) / kTimeUnitMs;
  std::string text;
  put_little(&text, static_cast<uint64_t>(std::min<int64_t>(units, std::numeric_limits<uint32_t>::max())), 4);
  put_little(&text, static_cast<uint64_t>(mark.rank), 4);
  put_little(&text, mark.bytes, 8);
  return text;
}

void LogIndex::add(const Mark& mark) {
  if (mark.rank < 0) return;
  const auto rank = static_cast<size_t>(mark.rank);
  if (rank / kPage >= pages_.size()) pages_.resize(rank / kPage + 1);
  std::vector<Points>& page = pages_[rank / kPage];
  if (page.empty()) page.resize(kPage);
  Points& points = page[rank % kPage];
  if (!points.empty() && mark.bytes < points.back().bytes) points.clear();
  if (!points.empty() && mark.time_ms < points.back().time_ms) return;
  points.push_back({mark.time_ms, mark.bytes});
}

Result<LogIndex> LogIndex::parse(std::string_view bytes) {
  if (!is_index(bytes))
    return Error{Errc::kInvalid, "the index of logs is damaged: it does not begin as dlrun writes it"};
  LogIndex index;
  index.base_ms_ = static_cast<int64_t>(get_little(bytes, kMagic.size(), 8));
  // Beyond any clock; sums with it would overflow.
  if (index.base_ms_ < 0 || index.base_ms_ > int64_t{1} << 50)
    return Error{Errc::kInvalid, "the index of logs is damaged: it does not begin as dlrun writes it"};
  for (size_t at = kIndexHeader; at + kIndexEntry <= bytes.size(); at += kIndexEntry)
    index.add(entry_at(bytes, at, index.base_ms_));
  return index;
}

void LogIndex::assume(int rank, uint64_t bytes, int64_t from_ms, int64_t to_ms) {
  constexpr int64_t kPoints = 1000;
  estimated_ = true;
  const int64_t time = std::max<int64_t>(0, to_ms - from_ms);
  for (int64_t i = 1; i <= kPoints; ++i)
    add({from_ms + time / kPoints * i + time % kPoints * i / kPoints, rank,
         bytes / kPoints * static_cast<uint64_t>(i) + bytes % kPoints * static_cast<uint64_t>(i) / kPoints});
}

uint64_t LogIndex::offset_at(int rank, int64_t time_ms) const {
  if (!knows(rank)) return 0;
  const std::vector<Point>& points = of(rank);
  const auto after = std::lower_bound(points.begin(), points.end(), time_ms,
                                      [](const Point& point, int64_t time) { return point.time_ms < time; });
  return after == points.begin() ? 0 : std::prev(after)->bytes;
}

uint64_t LogIndex::end_at(int rank, int64_t time_ms) const {
  if (!knows(rank)) return std::numeric_limits<uint64_t>::max();
  const std::vector<Point>& points = of(rank);
  const auto after = std::lower_bound(points.begin(), points.end(), time_ms,
                                      [](const Point& point, int64_t time) { return point.time_ms < time; });
  return after == points.end() ? std::numeric_limits<uint64_t>::max() : after->bytes;
}

int64_t LogIndex::time_of(int rank, uint64_t offset) const {
  if (!knows(rank)) return std::numeric_limits<int64_t>::max();
  const std::vector<Point>& points = of(rank);
  const auto after = std::upper_bound(points.begin(), points.end(), offset,
                                      [](uint64_t at, const Point& point) { return at < point.bytes; });
  return after == points.end() ? std::numeric_limits<int64_t>::max() : after->time_ms;
}

int64_t LogIndex::first_ms() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto& page : pages_)
    for (const Points& points : page)
      if (!points.empty()) first = std::min(first, points.front().time_ms);
  return first == std::numeric_limits<int64_t>::max() ? 0 : first;
}

int64_t LogIndex::last_ms() const {
  int64_t last = 0;
  for (const auto& page : pages_)
    for (const Points& points : page)
      if (!points.empty()) last = std::max(last, points.back().time_ms);
  return last;
}

std::string thin_index(std::string_view bytes) {
  if (!is_index(bytes)) return {};
  const size_t entries = (bytes.size() - kIndexHeader) / kIndexEntry;
  std::vector<char> keep(entries, 1);
  std::vector<char> odd;  // by rank, counted from the newest
  for (size_t i = entries; i-- > 0;) {
    const Mark mark = entry_at(bytes, kIndexHeader + i * kIndexEntry, 0);
    if (mark.rank < 0) {
      keep[i] = 0;
      continue;
    }
    if (static_cast<size_t>(mark.rank) >= odd.size()) odd.resize(static_cast<size_t>(mark.rank) + 1);
    char& its = odd[static_cast<size_t>(mark.rank)];
    keep[i] = its == 0 ? 1 : 0;
    its ^= 1;
  }
  std::string text(bytes.substr(0, kIndexHeader));
  for (size_t i = 0; i < entries; ++i)
    if (keep[i] != 0) text += bytes.substr(kIndexHeader + i * kIndexEntry, kIndexEntry);
  return text;
}

}  // namespace dl::logs
