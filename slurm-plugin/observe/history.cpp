// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/observe/history.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"

namespace dl::observe {
namespace {

constexpr size_t kMaxFile = size_t{256} << 20;
constexpr int64_t kMaxTime = int64_t{1} << 40;
constexpr int kMaxGpus = 10'000'000;
constexpr std::string_view kHeading = "time_s,span_s,tenant,quota,own,lent,borrowed,unused,pending";

using Value = double TenantSpan::*;
constexpr std::array<Value, 6> kValues{&TenantSpan::quota,    &TenantSpan::own,    &TenantSpan::lent,
                                       &TenantSpan::borrowed, &TenantSpan::unused, &TenantSpan::pending};

// Reads digits with at most two decimal places.
bool read_gpus(std::string_view text, double* out) {
  const size_t point = text.find('.');
  const auto whole = parse_int(text.substr(0, point), 0, kMaxGpus);
  if (!whole) return false;
  *out = static_cast<double>(*whole);
  if (point == std::string_view::npos) return true;
  const std::string_view digits = text.substr(point + 1);
  const auto part = parse_int(digits, 0, 99);
  if (!part || digits.size() > 2) return false;
  *out += static_cast<double>(*part) / (digits.size() == 1 ? 10 : 100);
  return true;
}

bool read_span(std::string_view line, int64_t now_s, TenantSpan* span) {
  const std::vector<std::string> fields = split(line, ',');
  if (fields.size() != 3 + kValues.size() || !is_plain_name(fields[2])) return false;
  const auto time = parse_int(fields[0], 0, kMaxTime);
  const auto length = parse_int(fields[1], 1, History::kCoarseS);
  if (!time || !length || *time > now_s) return false;
  span->time_s = *time;
  span->span_s = *length;
  span->tenant = fields[2];
  for (size_t i = 0; i < kValues.size(); ++i)
    if (!read_gpus(fields[3 + i], &(span->*kValues[i]))) return false;
  return true;
}

void add_weighted(TenantSpan* sum, const TenantSpan& span, double weight) {
  for (const Value value : kValues) sum->*value += span.*value * weight;
}

// Joins the spans of one tenant that begin within the same `length`; their values are averaged.
void merge(std::vector<TenantSpan>* spans, int64_t length) {
  std::map<std::pair<int64_t, std::string>, std::pair<TenantSpan, double>> merged;
  for (const TenantSpan& span : *spans) {
    const int64_t start = span.time_s / length * length;
    auto& [sum, weight] = merged[{start, span.tenant}];
    sum.time_s = start;
    sum.tenant = span.tenant;
    sum.span_s = length;
    add_weighted(&sum, span, static_cast<double>(span.span_s));
    weight += static_cast<double>(span.span_s);
  }
  spans->clear();
  for (auto& [key, entry] : merged) {
    for (const Value value : kValues) entry.first.*value /= entry.second;
    spans->push_back(std::move(entry.first));
  }
}

}  // namespace

std::string format_history(const std::vector<TenantSpan>& spans) {
  std::string text(kHeading);
  text += '\n';
  for (const TenantSpan& span : spans) {
    text += fmt::format("{},{},{}", span.time_s, span.span_s, span.tenant);
    for (const Value value : kValues) {
      const double hundredths = std::round(span.*value * 100);
      text += fmt::format(",{:.0f}", std::floor(hundredths / 100));
      if (const int part = static_cast<int>(std::fmod(hundredths, 100)); part != 0) text += fmt::format(".{:02}", part);
    }
    text += '\n';
  }
  return text;
}

HistoryText parse_history(const std::string& text, int64_t now_s) {
  HistoryText history;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = std::string_view(text).substr(start, end - start);
    start = end + 1;
    if (line == kHeading || line.empty()) continue;
    TenantSpan span;
    if (read_span(line, now_s, &span))
      history.spans.push_back(std::move(span));
    else
      ++history.skipped;
  }
  const auto earlier = [](const TenantSpan& a, const TenantSpan& b) {
    return a.time_s != b.time_s ? a.time_s < b.time_s : a.tenant < b.tenant;
  };
  std::stable_sort(history.spans.begin(), history.spans.end(), earlier);
  const auto same = [](const TenantSpan& a, const TenantSpan& b) {
    return a.time_s == b.time_s && a.tenant == b.tenant;
  };
  history.spans.erase(std::unique(history.spans.begin(), history.spans.end(), same), history.spans.end());
  return history;
}

Result<HistoryText> read_history(const std::string& path, int64_t now_s) {
  DL_TRY_ASSIGN(const std::string text, read_small_file(path, kMaxFile));
  return parse_history(text, now_s);
}

void History::add(int64_t now_s, const std::vector<policy::QuotaRow>& rows) {
  const int64_t minute = now_s / kMinuteS * kMinuteS;
  if (minute != minute_s_) close_minute();
  minute_s_ = minute;
  ++seen_;
  for (const policy::QuotaRow& row : rows) {
    auto found =
        std::find_if(minute_.begin(), minute_.end(), [&](const auto& sum) { return sum.tenant == row.tenant; });
    if (found == minute_.end()) {
      minute_.push_back(TenantSpan{minute, kMinuteS, row.tenant});
      found = minute_.end() - 1;
    }
    TenantSpan now;
    now.quota = row.quota;
    now.own = row.own;
    now.lent = row.lent;
    now.borrowed = row.borrowed;
    now.unused = row.idle;
    now.pending = row.pending;
    add_weighted(&*found, now, 1);
  }
}

void History::close_minute() {
  for (TenantSpan& sum : minute_) {
    for (const Value value : kValues) sum.*value /= seen_;
    spans_.push_back(std::move(sum));
  }
  minute_.clear();
  seen_ = 0;
}

std::vector<TenantSpan> History::spans(int64_t now_s) const {
  History closed = *this;
  closed.close_minute();
  std::vector<TenantSpan> coarse;
  std::vector<TenantSpan> fine;
  // The boundary is a whole quarter of an hour, so that no quarter is averaged twice from two halves.
  const int64_t fine_from = (now_s - kFineS) / kCoarseS * kCoarseS;
  for (TenantSpan& span : closed.spans_) {
    if (span.time_s < now_s - kKeptS) continue;
    (span.time_s < fine_from ? coarse : fine).push_back(std::move(span));
  }
  merge(&coarse, kCoarseS);
  // After a restart dlpolicyd may have recorded the same minute a second time.
  merge(&fine, kMinuteS);
  coarse.insert(coarse.end(), fine.begin(), fine.end());
  if (coarse.size() > kMost) coarse.erase(coarse.begin(), coarse.end() - kMost);
  return coarse;
}

}  // namespace dl::observe
