// SPDX-License-Identifier: Apache-2.0
#include "launcher/top/frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "common/base/count.h"
#include "common/base/local_time.h"
#include "launcher/top/cells.h"

namespace dl::top {
namespace {

constexpr size_t kMarker = 2, kGap = 2;  // columns before a row, and between two cells
constexpr size_t kLeastWhy = 12;         // narrower reasons say nothing
constexpr size_t kLeastStep = 9;         // a column that grows with each look would move all others
constexpr size_t kWidest[kColumns] = {16, 12, 24, 12, 7, 14, 8, 9, 8, 8, 5, 7, 300};
// Which columns are left out last where there is too little room; JOB and STATE always stay.
constexpr Column kByWorth[] = {Column::kStep, Column::kLoss, Column::kLeft, Column::kRate, Column::kGpu,
                               Column::kUser, Column::kName, Column::kSave, Column::kCpu,  Column::kSince};
constexpr Column kNumbers[] = {Column::kStep, Column::kRate, Column::kLoss, Column::kLeft,
                               Column::kGpu,  Column::kCpu,  Column::kSave, Column::kSince};

bool is_number(Column column) {
  return std::find(std::begin(kNumbers), std::end(kNumbers), column) != std::end(kNumbers);
}

std::string heading(const State& state, Column column) {
  return heading_of(column) + std::string(column == state.by ? state.descending ? "-" : "+" : "");
}

struct Cells {
  std::vector<std::string> of[kColumns];  // of each column: the heading, and a cell for each row
  size_t width[kColumns] = {};
};

Cells cells_of(const State& state, int64_t now_ms) {
  Cells cells;
  for (size_t i = 0; i < kColumns; ++i) {
    const auto column = static_cast<Column>(i);
    cells.of[i].push_back(heading(state, column));
    for (const Row& row : state.snapshot.rows) cells.of[i].push_back(cell_of(row, column, now_ms));
    for (const std::string& cell : cells.of[i]) cells.width[i] = std::max(cells.width[i], columns_of(cell));
    if (column == Column::kStep) cells.width[i] = std::max(cells.width[i], kLeastStep);
    cells.width[i] = std::min(cells.width[i], kWidest[i]);
  }
  return cells;
}

// The columns that the terminal has room for, in their order. WHY gets what is left.
std::vector<Column> chosen_columns(const State& state, size_t room, Cells* cells) {
  bool chosen[kColumns] = {};
  size_t used = kMarker;
  const auto add = [&](Column column, bool always) {
    const size_t width = cells->width[static_cast<size_t>(column)] + kGap;
    if (!always && used + width > room) return;
    used += width;
    chosen[static_cast<size_t>(column)] = true;
  };
  add(Column::kJob, true);
  add(Column::kState, true);
  for (const Column column : kByWorth)
    if (column != Column::kUser || state.all_users) add(column, false);
  if (used + kLeastWhy <= room) {
    chosen[static_cast<size_t>(Column::kWhy)] = true;
    cells->width[static_cast<size_t>(Column::kWhy)] = room - used;
  }
  std::vector<Column> columns;
  for (size_t i = 0; i < kColumns; ++i)
    if (chosen[i]) columns.push_back(static_cast<Column>(i));
  return columns;
}

Style style_of(const Row& row) {
  if (row.state == "PROCESSING" || row.state == "COMPLETED") return Style::kGood;
  if (row.state == "FAILED" || row.state == "CANCELLED") return Style::kBad;
  return row.state == "HALTED" ? Style::kWarning : Style::kPlain;
}

class Composer {
 public:
  Composer(State* state, const Place& place)
      : state_(*state),
        place_(place),
        columns_(static_cast<size_t>(std::max(place.columns, 1))),
        end_(place.ascii ? "~" : "…") {
    frame_.columns = std::max(place.columns, 1);
    frame_.rows = std::max(place.rows, 1);
  }

  Frame make() {
    title();
    message();
    const size_t rows = static_cast<size_t>(frame_.rows), above = frame_.lines.size();
    const size_t body = rows > above + 1 ? rows - above - 1 : 0;
    if (state_.help)
      text(help_lines(), body);
    else if (!state_.opened.empty())
      text(job_lines(state_, place_, static_cast<int>(body)), body);
    else
      list(body);
    frame_.lines.resize(std::min(frame_.lines.size(), rows - 1));
    while (frame_.lines.size() + 1 < rows) frame_.lines.emplace_back();
    bottom();
    if (place_.ascii)
      for (Line& line : frame_.lines)
        for (Span& span : line)
          for (char& c : span.text)
            if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    return std::move(frame_);
  }

 private:
  void add(const std::string& text, Style style = Style::kPlain) {
    frame_.lines.push_back({{cut(text, columns_, end_), style}});
  }

  void title() {
    std::map<std::string, int> states;
    for (const Row& row : state_.snapshot.rows) ++states[row.state];
    std::string text = "dlctl top " + format_local_time(place_.now_ms / 1000, "%H:%M:%S") + "  ";
    text += count_text(static_cast<int64_t>(state_.snapshot.rows.size()), "job");
    std::string parts;
    for (const auto& [name, count] : states)
      parts += (parts.empty() ? ": " : ", ") + std::to_string(count) + " " + harmless(name, 20);
    text += parts;
    if (!state_.all_users && !state_.named && parts.empty()) text += " of yours";
    std::string age;
    if (state_.looked && place_.now_ms - state_.snapshot.time_ms > kOldMs)
      age = "looked " + time_text(place_.now_ms - state_.snapshot.time_ms) + " ago";
    else if (state_.snapshot.slurm_ms > 0)
      age = "Slurm asked " + time_text(place_.now_ms - state_.snapshot.slurm_ms) + " ago";
    if (columns_of(text) + columns_of(age) + 2 <= columns_)
      text += std::string(columns_ - columns_of(text) - columns_of(age), ' ') + age;
    add(text, Style::kBold);
  }

  void message() {
    if (!state_.message.empty())
      add(harmless(state_.message, 1000), Style::kWarning);
    else if (!state_.snapshot.problem.empty())
      add(harmless(state_.snapshot.problem, 1000), Style::kBad);
    else
      add(state_.looked ? "" : "looking at the jobs ...");
  }

  void list(size_t body) {
    const auto& rows = state_.snapshot.rows;
    if (rows.empty()) {
      if (state_.looked && body > 0) add(none_text(state_));
      return;
    }
    Cells cells = cells_of(state_, place_.now_ms);
    const std::vector<Column> columns = chosen_columns(state_, columns_, &cells);
    const size_t visible = body > 1 ? body - 1 : 1;
    state_.page = visible;
    const size_t selected = selected_index(state_), first = selected / visible * visible;
    if (body > 1) add(row_text(cells, columns, 0, "  "), Style::kBold);
    for (size_t i = first; i < std::min(rows.size(), first + visible); ++i) {
      const bool is_selected = i == selected;
      const std::string line = row_text(cells, columns, i + 1, is_selected ? "> " : "  ");
      if (is_selected)
        frame_.lines.push_back({{fitted(line, columns_, end_), Style::kReverse}});
      else
        add(line, style_of(rows[i]));
    }
  }

  std::string row_text(const Cells& cells, const std::vector<Column>& columns, size_t index, const char* marker) const {
    std::string line = marker;
    for (const Column column : columns) {
      const auto at = static_cast<size_t>(column);
      line += fitted(cells.of[at][index], cells.width[at], end_, is_number(column));
      if (column != columns.back()) line.append(kGap, ' ');
    }
    return line;
  }

  // A text that may be longer than the terminal.
  void text(const std::vector<Line>& lines, size_t body) {
    state_.page = std::max<size_t>(body, 1);
    state_.scroll = std::min(state_.scroll, lines.size() > body ? lines.size() - body : 0);
    for (size_t i = state_.scroll; i < std::min(lines.size(), state_.scroll + body); ++i) {
      Line line = lines[i];
      size_t left = columns_;
      for (Span& span : line) {
        span.text = cut(span.text, left, end_);
        left -= std::min(left, columns_of(span.text));
      }
      frame_.lines.push_back(std::move(line));
    }
  }

  std::vector<Line> help_lines() const {
    static const char* const kHelp[] = {
        "up, down, j, k      select a job, or move in its text",
        "page up, page down, space, home, end",
        "enter               open the job: what happened, its curve, its last lines",
        "escape              back",
        "p                   pause the job (asks before): it saves, and gives its GPUs back",
        "r                   resume the job (asks before)",
        "s, S                sort by the next column; the other way round",
        "<, >, left, right   sort by the column before, or behind",
        "q                   quit",
        "",
        "STEP    newest train step           STEP/S  train steps a second",
        "LOSS    newest training loss        LEFT    what the rest of the training takes",
        "GPU     use of its GPUs             CPU     CPUs that it keeps busy",
        "SAVE    time until the next save",
        "-       not known, or not measured"};
    std::vector<Line> lines;
    for (const char* line : kHelp) lines.push_back({{line, Style::kPlain}});
    return lines;
  }

  // The question, or the keys: as many as there is room for.
  void bottom() {
    if (state_.question) {
      const Question& question = *state_.question;
      std::string ask = (question.pause ? "Pause job " : "Resume job ") + harmless(question.job, 60) + "? y/n";
      const std::string name = harmless(question.name, 60);
      if (!name.empty() && columns_of(ask) + columns_of(name) + 3 <= columns_)
        ask.insert(ask.size() - 5, " (" + name + ")");
      return add(ask, Style::kReverse);
    }
    static const char* const kList[] = {"q quit", "enter open", "p pause", "r resume", "s sort", "? help"};
    static const char* const kJob[] = {"esc back", "p pause", "r resume", "up/down scroll", "? help"};
    static const char* const kBack[] = {"esc back", "up/down scroll"};
    std::string keys;
    const auto take = [&](const char* key) {
      const std::string next = (keys.empty() ? "" : "  ") + std::string(key);
      if (columns_of(keys) + next.size() <= columns_) keys += next;
    };
    if (state_.help)
      std::for_each(std::begin(kBack), std::end(kBack), take);
    else if (!state_.opened.empty())
      std::for_each(std::begin(kJob), std::end(kJob), take);
    else
      std::for_each(std::begin(kList), std::end(kList), take);
    add(keys, Style::kDim);
  }

  static constexpr int64_t kOldMs = 15'000;
  State& state_;
  const Place& place_;
  const size_t columns_;
  const std::string end_;
  Frame frame_;
};

}  // namespace

Frame compose(State* state, const Place& place) {
  return Composer(state, place).make();
}

std::string none_text(const State& state) {
  if (state.named) return "none of these jobs is queued or running";
  return state.all_users ? "no job is queued or running"
                         : "you have no job queued or running (all users: dlctl top --all)";
}

std::string list_text(const State& state, int64_t now_ms) {
  Cells cells = cells_of(state, now_ms);
  std::string text;
  for (size_t row = 0; row <= state.snapshot.rows.size(); ++row) {
    std::string line;
    for (size_t i = 0; i < kColumns; ++i) {
      const auto column = static_cast<Column>(i);
      if (column == Column::kUser && !state.all_users) continue;
      // Nothing is cut: a program may read it.
      size_t width = 0;
      for (const std::string& cell : cells.of[i]) width = std::max(width, columns_of(cell));
      const std::string& cell = row == 0 ? std::string(heading_of(column)) : cells.of[i][row];
      line += (line.empty() ? "" : "  ") + fitted(cell, width, "", is_number(column));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace dl::top
