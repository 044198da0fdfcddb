// SPDX-License-Identifier: Apache-2.0
// The time index of an attempt's logs, logs/attempt-A/index.bin: how long each learner's log was at which time. With it
// a place in 100 GB of logs is found by time without reading them. dlrun alone writes it
// (launcher/supervise/log_times.h); readers accept an incomplete last entry. Pure.
//
// Little-endian. Header, 16 bytes: "DLLOGIX1", then int64 base, milliseconds since the epoch. Each entry, 16 bytes:
// uint32 time in tenths of a second since the base, uint32 rank, uint64 bytes of its log that were written by then.
// Times never fall. If the bytes of a rank fall, its log was begun anew, and the earlier entries of that rank are void.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::logs {

constexpr char kIndexName[] = "index.bin";
constexpr size_t kIndexHeader = 16, kIndexEntry = 16;
constexpr uint64_t kMostIndexBytes = 64 << 20;  // at this size the writer thins it to half
constexpr int64_t kTimeUnitMs = 100;
constexpr int kMostRank = 1'000'000;

// How often each agent reports the length of its log, in a job with this number of learners.
constexpr int64_t index_interval_ms(size_t learners) {
  return learners <= 64 ? 1000 : 10'000;
}

// By `time_ms` (since the epoch) the log of `rank` had `bytes` bytes.
struct Mark {
  int64_t time_ms = 0;
  int rank = 0;
  uint64_t bytes = 0;
};

std::string index_header(int64_t base_ms);
// A time before the base counts as the base; one more than 13 years after it counts as 13 years after it.
std::string index_entry(int64_t base_ms, const Mark& mark);

class LogIndex {
 public:
  LogIndex() = default;
  // kInvalid: it is no index. A torn last entry, entries out of order and ranks beyond kMostRank are left out.
  static Result<LogIndex> parse(std::string_view bytes);
  // For a log without an index: as if it had grown evenly from `from_ms` to `to_ms`. May be called for several ranks.
  void assume(int rank, uint64_t bytes, int64_t from_ms, int64_t to_ms);

  int64_t base_ms() const { return base_ms_; }
  bool estimated() const { return estimated_; }  // assume() was needed
  bool empty() const { return pages_.empty(); }
  bool knows(int rank) const {
    const auto page = static_cast<size_t>(rank) / kPage;
    return page < pages_.size() && !pages_[page].empty() && !of(rank).empty();
  }
  // The offset from which to read to get all that was written at or after this time: at most one interval of the index
  // too early. 0 if nothing is known of the rank.
  uint64_t offset_at(int rank, int64_t time_ms) const;
  // The offset up to which to read to get all that was written until this time. UINT64_MAX if the index ends earlier.
  uint64_t end_at(int rank, int64_t time_ms) const;
  // When the byte at `offset` had been written: the time of the first entry beyond it. INT64_MAX if the byte lies
  // behind the last entry.
  int64_t time_of(int rank, uint64_t offset) const;
  // Times of the first and the last entry; 0 if empty.
  int64_t first_ms() const;
  int64_t last_ms() const;

 private:
  struct Point {
    int64_t time_ms;
    uint64_t bytes;
  };
  using Points = std::vector<Point>;
  static constexpr size_t kPage = 1024;
  // Precondition: the page of this rank is there.
  const Points& of(int rank) const {
    return pages_[static_cast<size_t>(rank) / kPage][static_cast<size_t>(rank) % kPage];
  }
  void add(const Mark& mark);

  int64_t base_ms_ = 0;
  bool estimated_ = false;
  std::vector<std::vector<Points>>
      pages_;  // of kPage ranks each, or empty: one high rank in a forged index costs little
};

// Returns the index without every second entry of each rank; the newest entry of each rank stays. Empty if `bytes` is
// not an index.
std::string thin_index(std::string_view bytes);

}  // namespace dl::logs
