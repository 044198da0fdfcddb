// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/history_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "common/base/local_time.h"
#include "common/json/json.h"

namespace dl::ctl {
namespace {

using observe::TenantSpan;

using Value = double TenantSpan::*;
struct NamedValue {
  const char* name;
  Value value;
};
constexpr std::array kValues{NamedValue{"quota", &TenantSpan::quota},   NamedValue{"own", &TenantSpan::own},
                             NamedValue{"lent", &TenantSpan::lent},     NamedValue{"borrowed", &TenantSpan::borrowed},
                             NamedValue{"unused", &TenantSpan::unused}, NamedValue{"pending", &TenantSpan::pending}};

constexpr int kRows = 6;
constexpr size_t kLabel = 8;  // width of the numbers on the left, with the axis

std::tm local_time(int64_t time_s) {
  const std::time_t time = time_s;
  std::tm parts = {};
  ::localtime_r(&time, &parts);
  return parts;
}

char mark_at(const TenantSpan& span, double gpus) {
  if (gpus < span.own) return '#';
  if (gpus < span.own + span.lent) return '+';
  if (gpus < span.own + span.lent + span.borrowed) return '>';
  return gpus < span.quota ? '.' : ' ';
}

double mean(const Columns& columns, Value value) {
  double sum = 0;
  int known = 0;
  for (const auto& span : columns) {
    if (!span) continue;
    sum += *span.*value;
    ++known;
  }
  return known > 0 ? sum / known : 0;
}

double most(const Columns& columns, Value value) {
  double found = 0;
  for (const auto& span : columns)
    if (span) found = std::max(found, *span.*value);
  return found;
}

std::string tenant_text(const std::string& tenant, const Columns& columns) {
  double top = 1;
  for (const auto& span : columns)
    if (span) top = std::max({top, span->quota, span->own + span->lent + span->borrowed});
  std::string text = fmt::format(
      "{}: on average {:.1f} own, {:.1f} lent, {:.1f} borrowed, {:.1f} not used; pending {:.1f}, at most {:.0f}\n",
      tenant, mean(columns, &TenantSpan::own), mean(columns, &TenantSpan::lent), mean(columns, &TenantSpan::borrowed),
      mean(columns, &TenantSpan::unused), mean(columns, &TenantSpan::pending), most(columns, &TenantSpan::pending));
  for (int row = kRows; row > 0; --row) {
    std::string line = row == kRows || row == kRows / 2 ? fmt::format("{:>6g} |", top * row / kRows) : "       |";
    for (const auto& span : columns) line += span ? mark_at(*span, top * (row - 0.5) / kRows) : ' ';
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text + "     0 +" + std::string(columns.size(), '-') + "\n";
}

// The time marks below a chart; a mark that would overlap another is left out.
std::string axis_text(const Period& period, size_t columns) {
  std::string line(kLabel + columns + kLabel, ' ');
  size_t free = 0;
  for (const TimeMark& mark : time_marks(period, static_cast<int>(columns / 12))) {
    const size_t at = kLabel + static_cast<size_t>((mark.time_s - period.from_s) * static_cast<int64_t>(columns) /
                                                   (period.to_s - period.from_s));
    if (at < free || at + mark.text.size() > line.size()) continue;
    line.replace(at, mark.text.size(), mark.text);
    free = at + mark.text.size() + 2;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

Columns columns_of(const std::vector<TenantSpan>& spans, const std::string& tenant, const Period& period,
                   size_t columns) {
  std::vector<TenantSpan> sums(columns);
  std::vector<double> weight(columns);
  const double length = static_cast<double>(period.to_s - period.from_s) / static_cast<double>(columns);
  for (const TenantSpan& span : spans) {
    if (span.tenant != tenant || span.time_s + span.span_s <= period.from_s || span.time_s >= period.to_s) continue;
    const double from = std::max(0.0, static_cast<double>(span.time_s - period.from_s));
    const double to = std::min(static_cast<double>(span.time_s + span.span_s), static_cast<double>(period.to_s)) -
                      static_cast<double>(period.from_s);
    for (auto i = static_cast<size_t>(from / length); i < columns && static_cast<double>(i) * length < to; ++i) {
      const double left = static_cast<double>(i) * length;
      const double shared = std::min(to, left + length) - std::max(from, left);
      if (shared <= 0) continue;
      for (const NamedValue& named : kValues) sums[i].*named.value += span.*named.value * shared;
      weight[i] += shared;
    }
  }
  Columns result(columns);
  for (size_t i = 0; i < columns; ++i) {
    if (weight[i] <= 0) continue;
    for (const NamedValue& named : kValues) sums[i].*named.value /= weight[i];
    sums[i].tenant = tenant;
    result[i] = std::move(sums[i]);
  }
  return result;
}

std::vector<std::string> tenants_in(const std::vector<TenantSpan>& spans) {
  std::vector<std::string> names;
  for (const TenantSpan& span : spans) names.push_back(span.tenant);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<TimeMark> time_marks(const Period& period, int count) {
  constexpr int64_t kSteps[] = {60,       300,       600,   1800,      3600,      3 * 3600,
                                6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400};
  int64_t step = 28 * 86400;
  for (const int64_t each : kSteps)
    if ((period.to_s - period.from_s) / each <= std::max(1, count)) {
      step = each;
      break;
    }
  std::vector<TimeMark> marks;
  // Counts from midnight. A day on which summer time begins or ends has an hour less or more; mktime takes care of
  // that.
  std::tm day = local_time(period.from_s);
  day.tm_hour = day.tm_min = day.tm_sec = 0;
  const int64_t midnight = std::mktime(&day);
  for (int64_t at = midnight; at < period.to_s; at += step) {
    if (at < period.from_s) continue;
    const std::tm parts = local_time(at);
    const bool new_day = parts.tm_hour == 0 && parts.tm_min == 0;
    marks.push_back({at, new_day || step >= 86400 ? format_local_time(at, "%b ") + std::to_string(parts.tm_mday)
                                                  : format_local_time(at, "%H:%M")});
  }
  return marks;
}

std::string history_text(const std::vector<TenantSpan>& spans, const Period& period, size_t width) {
  const size_t columns = std::max<size_t>(width, kLabel + 20) - kLabel;
  std::string text = "GPUs: # own, + lent to others, > borrowed, . the rest of the quota\n";
  for (const std::string& tenant : tenants_in(spans))
    text += "\n" + tenant_text(tenant, columns_of(spans, tenant, period, columns)) + axis_text(period, columns);
  return text;
}

std::string history_json(const std::vector<TenantSpan>& spans) {
  auto list = Json::array();
  for (const TenantSpan& span : spans) {
    Json item = {{"time_s", span.time_s}, {"span_s", span.span_s}, {"tenant", span.tenant}};
    for (const NamedValue& named : kValues) item[named.name] = span.*named.value;
    list.push_back(std::move(item));
  }
  return list.dump(1) + "\n";
}

}  // namespace dl::ctl
