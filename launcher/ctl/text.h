// SPDX-License-Identifier: Apache-2.0
// Formats tables, times, and lines of logs for dlctl's output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/local_time.h"

namespace dl::ctl {

// Columns as wide as their widest cell, two blanks between them, no blanks at the ends of lines. The first row is the
// heading. Cells are printed unchanged: pass untrusted text through printable() first.
std::string table(const std::vector<std::vector<std::string>>& rows);

// Makes a line of a log safe for a terminal: colours stay, all other control characters except tabs become \xNN. If the
// line was overwritten by carriage returns, only the last text is kept.
std::string terminal_text(const std::string& line);

int64_t now_ms();  // since the epoch
// Local time: "14:05:09" if it is of the day of `now`, else "2026-11-21 14:05:09".
std::string clock_text(int64_t time_ms, int64_t now);

}  // namespace dl::ctl
