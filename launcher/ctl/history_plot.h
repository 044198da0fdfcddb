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

// One tenant's history in `columns` equal parts of the period: the average over each part, none if nothing is known of
// it.
using Columns = std::vector<std::optional<observe::TenantSpan>>;
Columns columns_of(const std::vector<observe::TenantSpan>& spans, const std::string& tenant, const Period& period,
                   size_t columns);

// The names of the tenants in the spans, sorted.
std::vector<std::string> tenants_in(const std::vector<observe::TenantSpan>& spans);

// A text chart for each tenant over local time, `width` characters wide including the numbers: own '#', lent '+',
// borrowed '>', the rest of the quota '.'.
std::string history_text(const std::vector<observe::TenantSpan>& spans, const Period& period, size_t width);
// A whole SVG file with a panel for each tenant.
std::string history_svg(const std::vector<observe::TenantSpan>& spans, const Period& period);
// A JSON array of objects whose members are the columns of the history file.
std::string history_json(const std::vector<observe::TenantSpan>& spans);

// The marks of a time axis, about `count` at most, with their labels in local time: "14:00", or at midnight "Nov 22".
struct TimeMark {
  int64_t time_s = 0;
  std::string text;
};
std::vector<TimeMark> time_marks(const Period& period, int count);

}  // namespace dl::ctl
