// SPDX-License-Identifier: Apache-2.0
// What dlctl's answers are made of: tables and times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dl::ctl {

// Columns as wide as their widest cell, two blanks between them, no blanks at the ends of lines. The first row is the
// heading. Cells are printed as they are: make hostile ones printable() before.
std::string table(const std::vector<std::vector<std::string>>& rows);

// A line of somebody's output for a terminal: colours stay, whatever else would move the cursor, change the terminal or
// hide text is shown as \xNN. Of a line that was written over (\r), what stands in the end.
std::string terminal_text(const std::string& line);

int64_t now_ms();  // since the epoch
// Local time: "14:05:09" if it is of the day of `now`, else "2026-11-21 14:05:09".
std::string clock_text(int64_t time_ms, int64_t now);
// "2m10s", "3h05m", "4d02h": two units.
std::string age_text(int64_t milliseconds);

}  // namespace dl::ctl
