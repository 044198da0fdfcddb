// SPDX-License-Identifier: Apache-2.0
// The GPUs that tenants held over the last weeks, for dlctl quota --history: dlpolicyd writes it, anybody may read it.
// A text file, one line for each tenant and span, which is also what --csv prints:
//
// time_s,span_s,tenant,quota,own,lent,borrowed,unused,pending
// 1789000000,60,vision,8,4,0,2,0,4.5
//
// The numbers are GPUs, averaged over the span; the columns mean the same as in policy/quota_rows.h. The newest day is
// kept by the minute, the weeks before by the quarter of an hour. Nothing but this command depends on the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "slurm-plugin/policy/quota_rows.h"

namespace dl::observe {

struct TenantSpan {
  int64_t time_s = 0;  // when the span begins (Unix time)
  int64_t span_s = 0;
  std::string tenant;
  double quota = 0, own = 0, lent = 0, borrowed = 0, unused = 0, pending = 0;
};

// The text of the file, with the heading. Spans are sorted by time.
std::string format_history(const std::vector<TenantSpan>& spans);

struct HistoryText {
  std::vector<TenantSpan> spans;  // sorted by time; each pair of tenant and time occurs once
  int skipped = 0;                // number of lines that were left out: incomplete, malformed or out of range
};
// Never fails: lines that cannot be read, or are dated after `now_s`, are left out.
HistoryText parse_history(const std::string& text, int64_t now_s);
// kNotFound if there is no file; kInvalid if it has more than 256 MiB or is no regular file.
Result<HistoryText> read_history(const std::string& path, int64_t now_s);

// Collects the spans for dlpolicyd to write. Pure.
class History {
 public:
  static constexpr int64_t kMinuteS = 60, kCoarseS = 900;
  static constexpr int64_t kFineS = 86400;       // how long spans are kept by the minute
  static constexpr int64_t kKeptS = 60 * 86400;  // how long spans are kept at all
  static constexpr size_t kMost = 500'000;       // spans of all tenants together; beyond that the oldest are dropped

  explicit History(std::vector<TenantSpan> spans = {}) : spans_(std::move(spans)) {}

  // Adds what tenants hold now. Several calls within one minute are averaged.
  void add(int64_t now_s, const std::vector<policy::QuotaRow>& rows);
  // All spans, including the present minute; the older ones are averaged as described above.
  std::vector<TenantSpan> spans(int64_t now_s) const;

 private:
  void close_minute();

  std::vector<TenantSpan> spans_;
  std::vector<TenantSpan> minute_;  // sums over the present minute
  int64_t minute_s_ = 0;
  int seen_ = 0;  // number of calls of add() in it
};

}  // namespace dl::observe
