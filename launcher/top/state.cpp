// SPDX-License-Identifier: Apache-2.0
#include "launcher/top/state.h"

#include <algorithm>

namespace dl::top {
namespace {

const Row* row_with(const State& state, const std::string& id) {
  const auto& rows = state.snapshot.rows;
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.id == id; });
  return found == rows.end() ? nullptr : &*found;
}

void select(size_t index, State* state) {
  const auto& rows = state->snapshot.rows;
  state->selected = rows.empty() ? "" : rows[std::min(index, rows.size() - 1)].id;
}

// The row that a key is about: the opened job, or the selected one.
const Row* meant_row(const State& state) {
  if (!state.opened.empty()) return opened_row(state);
  return state.snapshot.rows.empty() ? nullptr : &state.snapshot.rows[selected_index(state)];
}

void ask(bool pause, State* state) {
  const Row* row = meant_row(*state);
  if (row == nullptr) {
    state->message = "no job is selected";
  } else if (pause && !row->may_pause) {
    state->message = "job " + row->job + " cannot be paused: it is " + row->state;
  } else if (!pause && !row->may_resume && row->state == "HALTED") {
    state->message =
        "Slurm does not have job " + row->job + ": start it again as before, it goes on from its checkpoint";
  } else if (!pause && !row->may_resume) {
    state->message = "job " + row->job + " is not paused: it is " + row->state;
  } else {
    // A run, or an element of an array that waits, is paused with the whole job.
    const bool path = row->target.find('/') != std::string::npos;
    state->question = Question{pause, row->target, path ? row->job : row->target, row->name};
  }
}

Action answer(const Press& press, State* state) {
  const Question question = *state->question;
  state->question.reset();
  if (press.key != Key::kLetter || (press.letter != 'y' && press.letter != 'Y')) {
    state->message = "nothing was done";
    return {};
  }
  state->message = (question.pause ? "pausing job " : "resuming job ") + question.job;
  return {question.pause ? Action::kPause : Action::kResume, question.target};
}

void sort_by(int direction, State* state) {
  const auto count = static_cast<int>(kColumns);
  auto column = static_cast<int>(state->by);
  do column = (column + direction + count) % count;
  while (static_cast<Column>(column) == Column::kUser && !state->all_users);
  state->by = static_cast<Column>(column);
  sort_rows(&state->snapshot.rows, state->by, state->descending);
}

// Moves in the list, or in the text of a job or of the help.
bool move(Key key, State* state) {
  const bool list = state->opened.empty() && !state->help;
  const size_t at = list ? selected_index(*state) : state->scroll, page = std::max<size_t>(state->page, 1);
  size_t to = at;
  if (key == Key::kUp) to = at > 0 ? at - 1 : 0;
  if (key == Key::kDown) to = at + 1;
  if (key == Key::kPageUp) to = at > page ? at - page : 0;
  if (key == Key::kPageDown) to = at + page;
  if (key == Key::kHome) to = 0;
  if (key == Key::kEnd) to = SIZE_MAX;
  if (to == at && key != Key::kHome && key != Key::kUp && key != Key::kPageUp) return false;
  if (list)
    select(to, state);
  else
    state->scroll = to;
  return true;
}

Action back(State* state) {
  state->scroll = 0;
  if (state->help) {
    state->help = false;
    return {};
  }
  if (state->opened.empty()) return {};
  state->opened.clear();
  return {Action::kClose, ""};
}

Action press_letter(char letter, State* state) {
  switch (letter) {
    case 'q':
      return state->opened.empty() && !state->help ? Action{Action::kQuit, ""} : back(state);
    case 'p':
      ask(true, state);
      return {};
    case 'r':
      ask(false, state);
      return {};
    case 's':
    case '>':
      sort_by(1, state);
      return {};
    case '<':
      sort_by(-1, state);
      return {};
    case 'S':
      state->descending = !state->descending;
      sort_rows(&state->snapshot.rows, state->by, state->descending);
      return {};
    case 'j':
      move(Key::kDown, state);
      return {};
    case 'k':
      move(Key::kUp, state);
      return {};
    case ' ':
      move(Key::kPageDown, state);
      return {};
    case '?':
    case 'h':
      state->help = !state->help;
      state->scroll = 0;
      return {};
    default:
      return {};
  }
}

}  // namespace

size_t selected_index(const State& state) {
  const Row* row = row_with(state, state.selected);
  return row == nullptr ? 0 : static_cast<size_t>(row - state.snapshot.rows.data());
}

const Row* opened_row(const State& state) {
  return state.opened.empty() ? nullptr : row_with(state, state.opened);
}

void take(Snapshot snapshot, State* state) {
  const size_t at = selected_index(*state);
  state->snapshot = std::move(snapshot);
  state->looked = true;
  sort_rows(&state->snapshot.rows, state->by, state->descending);
  if (row_with(*state, state->selected) == nullptr) select(at, state);
}

Action press(const Press& press, State* state) {
  if (state->question) return answer(press, state);
  state->message.clear();
  switch (press.key) {
    case Key::kEscape:
      return back(state);
    case Key::kLeft:
    case Key::kRight:
      if (state->opened.empty()) sort_by(press.key == Key::kLeft ? -1 : 1, state);
      return {};
    case Key::kEnter: {
      if (!state->opened.empty() || state->help || state->snapshot.rows.empty()) return {};
      state->opened = state->snapshot.rows[selected_index(*state)].id;
      state->scroll = 0;
      return {Action::kOpen, state->opened};
    }
    case Key::kLetter:
      return press_letter(press.letter, state);
    default:
      move(press.key, state);
      return {};
  }
}

}  // namespace dl::top
