// SPDX-License-Identifier: Apache-2.0
// What `dlctl top` shows at a moment, and what a key changes in it. Pure: what a key asks for outside of it is returned
// as an Action, and carried out by others.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/top/keys.h"
#include "launcher/top/snapshot.h"

namespace dl::top {

struct Question {
  bool pause = true;              // or resume
  std::string target, job, name;  // of the row; target is that of Row
};

struct Action {
  enum Kind { kNone, kQuit, kPause, kResume, kOpen, kClose };
  Kind kind = kNone;
  std::string id;  // Row::target to pause and to resume, Row::id to open
};

struct State {
  bool all_users = false;
  bool named = false;  // only jobs that were named are shown
  Column by = Column::kState;
  bool descending = false;
  std::string selected;  // Row::id; empty: the first row
  std::string opened;    // Row::id of the job that is opened; empty: the list is shown
  bool help = false;
  size_t scroll = 0;  // lines of an opened job, or of the help, that are above the terminal
  std::optional<Question> question;
  std::string message;  // what became of the last action, or empty: hostile
  bool looked = false;  // there is a snapshot
  Snapshot snapshot;    // its rows are sorted
  size_t page = 10;     // rows that the terminal has room for; compose() sets it
};

// A new look. The selected row stays selected wherever it moves; if it is gone, the one at its place is selected.
void take(Snapshot snapshot, State* state);

// A key. May change the message, since people have seen the one before.
Action press(const Press& press, State* state);

// The index of the selected row; 0 if there are none.
size_t selected_index(const State& state);
// The opened job's row; nullptr if no job is opened, or it is gone.
const Row* opened_row(const State& state);

}  // namespace dl::top
