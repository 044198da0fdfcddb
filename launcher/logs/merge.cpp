// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/merge.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "launcher/record/job_dir.h"

namespace dl::logs {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// What is read at a time from all logs together, so that the first line comes soon however many they are.
constexpr size_t kRound = 4 << 20, kLeastBlock = 4 << 10, kMostBlock = 64 << 10;

// How many logs are held open; a few descriptors are left for others.
size_t most_open() {
  constexpr rlim_t kOthers = 64;
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= kOthers) return 1;
  return static_cast<size_t>(limit.rlim_cur - kOthers);
}

bool is_before(const Waiting& each, int rank) {
  return each.rank < rank;
}

}  // namespace

Merger::Merger(std::string root, int attempt, const LogIndex* index, How how)
    : root_(std::move(root)), attempt_(attempt), index_(index), how_(std::move(how)), most_open_(most_open()) {}

bool Merger::has(int rank) const {
  const auto at = std::lower_bound(waiting_.begin(), waiting_.end(), rank, is_before);
  return at != waiting_.end() && at->rank == rank;
}

void Merger::add(const Part& part) {
  const std::string log = record::JobDir("").learner_log(attempt_, part.rank).substr(1);
  const auto at = std::lower_bound(waiting_.begin(), waiting_.end(), part.rank, is_before) - waiting_.begin();
  sources_.insert(sources_.begin() + at,
                  Source{LineReader(root_, log, part.begin, sources_.size() < most_open_), part.end, false});
  waiting_.insert(waiting_.begin() + at, Waiting{part.rank, {}, 0});
}

Result<bool> Merger::read_until(int64_t time_ms, bool* any) {
  const size_t block = std::clamp(kRound / std::max<size_t>(sources_.size(), 1), kLeastBlock, kMostBlock);
  bool all = true;
  std::deque<std::string> lines;
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (source.ended) continue;
    const int rank = waiting_[i].rank;
    const uint64_t written = time_ms == kNever || !index_->knows(rank) ? UINT64_MAX : index_->offset_at(rank, time_ms);
    lines.clear();
    DL_TRY_ASSIGN(const bool done, source.reader.read(std::min(source.end, written), block, &lines));
    all = all && done;
    source.ended = source.reader.at_end() || source.reader.offset() >= source.end;
    *any = *any || !lines.empty();
    for (std::string& line : lines)
      if (!how_.keep || how_.keep(line)) waiting_[i].lines.push_back(std::move(line));
  }
  return all;
}

std::optional<int64_t> Merger::next_time() const {
  std::optional<int64_t> next;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (source.ended) continue;
    const int64_t its = index_->time_of(waiting_[i].rank, source.reader.offset());
    next = next ? std::min(*next, its) : its;
  }
  return next;
}

void Merger::show_all_due() {
  for (Waiting& each : waiting_) each.due = each.lines.size();
  show_due(&waiting_, how_.alike, how_.show);
}

Result<bool> Merger::run() {
  for (Source& source : sources_) source.ended = source.reader.offset() >= source.end;
  // Agents report the length of their logs once in this time, each at a moment of its own: lines that were written
  // within it have no known order, and fold where they are alike.
  const int64_t window = index_interval_ms(sources_.size());
  bool all = true, any = false;
  int64_t until = 0;
  for (;;) {
    if (all) {
      const auto next = next_time();
      if (!next) break;
      until = *next >= kNever - window ? kNever : (*next / window + 1) * window;
    }
    // What was read in the round before is due; what comes now stands behind it.
    for (Waiting& each : waiting_) each.due = each.lines.size();
    DL_TRY_ASSIGN(all, read_until(until, &any));
    show_due(&waiting_, how_.alike, how_.show);
    if (how_.go_on && !how_.go_on()) return any;
  }
  show_all_due();
  return any;
}

void Merger::finish() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].reader.offset() >= sources_[i].end) continue;
    std::string rest = sources_[i].reader.take_rest();
    if (!rest.empty() && (!how_.keep || how_.keep(rest))) waiting_[i].lines.push_back(std::move(rest));
  }
  show_all_due();
}

}  // namespace dl::logs
