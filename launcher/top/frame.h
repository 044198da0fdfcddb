// SPDX-License-Identifier: Apache-2.0
// Composes what stands on the terminal from a State: the list of jobs, an opened job, or the help. Pure, but for the
// local time zone and what show_letters() has set.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/top/screen.h"
#include "launcher/top/state.h"

namespace dl::top {

struct Place {
  int columns = 80, rows = 24;
  bool ascii = false;  // the terminal shows ASCII alone
  int64_t now_ms = 0;  // since the epoch
};

// Limits state->scroll, and sets state->page.
Frame compose(State* state, const Place& place);

// The list alone, for a pipe or a file: all rows and all columns, however wide.
std::string list_text(const State& state, int64_t now_ms);

// What is said where there are no rows.
std::string none_text(const State& state);

// The lines that tell of an opened job. In frame_job.cpp.
std::vector<Line> job_lines(const State& state, const Place& place, int body_rows);

}  // namespace dl::top
