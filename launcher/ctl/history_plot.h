// SPDX-License-Identifier: Apache-2.0
// The history of tenants' GPUs (slurm-plugin/observe/history.h) as pictures: for a terminal, and as SVG. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slurm-plugin/observe/history.h"

namespace dl::ctl {

// What is shown: from_s <= time < to_s (Unix time).
struct Period {
  int64_t from_s = 0;
  int64_t to_s = 0;
};

// Of one tenant, in `columns` equal parts of the period: averages by time, none where nothing is known.
using Columns = std::vector<std::optional<observe::TenantSpan>>;
Columns columns_of(const std::vector<observe::TenantSpan>& spans, const std::string& tenant, const Period& period,
                   size_t columns);

// Tenants that the spans name, by name.
std::vector<std::string> tenants_in(const std::vector<observe::TenantSpan>& spans);

// A chart for each tenant, `width` characters wide with its numbers, over local time: own '#', lent '+', borrowed '>',
// the rest of the quota '.'.
std::string history_text(const std::vector<observe::TenantSpan>& spans, const Period& period, size_t width);
// A whole SVG file with a panel for each tenant.
std::string history_svg(const std::vector<observe::TenantSpan>& spans, const Period& period);
// An array of objects with the members of the file.
std::string history_json(const std::vector<observe::TenantSpan>& spans);

// Times between from and to at which an axis has its marks, at most about `count` of them, with what stands there:
// "14:00", or at midnight "Nov 22". Local time.
struct TimeMark {
  int64_t time_s = 0;
  std::string text;
};
std::vector<TimeMark> time_marks(const Period& period, int count);

}  // namespace dl::ctl
