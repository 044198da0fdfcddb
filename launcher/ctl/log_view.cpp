// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/log_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "launcher/ctl/log_files.h"
#include "launcher/ctl/text.h"
#include "launcher/logs/read_index.h"

namespace dl::ctl {
namespace {

constexpr size_t kLongestRanks = 40;

}  // namespace

std::string ranks_prefix(const std::vector<int>& ranks) {
  std::string text = logs::ranks_text(ranks);
  if (text.size() > kLongestRanks)
    text = fmt::format("{},… ({})", text.substr(0, text.rfind(',', kLongestRanks / 2)), ranks.size());
  return "[" + text + "] ";
}

void LogPrinter::print(const std::vector<int>& ranks, const std::string& line, bool prefix) {
  std::string text = prefix ? ranks_prefix(ranks) : std::string();
  const bool error = colours_ && !error_shown_ && says_error(line);
  if (error) text += "\x1b[1;31m";
  text += terminal_ ? terminal_text(line) : line;
  if (error) text += "\x1b[0m";
  error_shown_ = error_shown_ || error;
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stdout);
}

AttemptLogs::AttemptLogs(record::JobDir dir, int number, int64_t begin_ms, LogChoice* choice, LogPrinter* printer)
    : dir_(std::move(dir)), number_(number), begin_ms_(begin_ms), choice_(choice), printer_(printer) {
  logs::Merger::How how;
  how.alike = choice->fold;
  if (choice->grep) how.keep = [choice](const std::string& line) { return choice->grep->matches(line); };
  how.show = [this](const std::vector<int>& ranks, const std::string& line) { show(ranks, line); };
  how.go_on = [] { return std::fflush(stdout) == 0; };
  merger_ = std::make_unique<logs::Merger>(dir_.root(), number_, &index_, std::move(how));
}

void AttemptLogs::show(const std::vector<int>& ranks, const std::string& line) {
  printer_->print(ranks, line, !choice_->ranks.single() && (choice_->several || logs_ > 1));
}

Result<logs::Part> AttemptLogs::part_of(int rank) {
  logs::Part part{rank};
  if (choice_->since_ms) part.begin = index_.offset_at(rank, *choice_->since_ms);
  if (choice_->until_ms) part.end = index_.end_at(rank, *choice_->until_ms);
  if (choice_->last_lines >= 0) {
    DL_TRY_ASSIGN(logs::LogFile file, logs::LogFile::open(dir_.root(), learner_log(number_, rank)));
    DL_TRY_ASSIGN(const uint64_t tail, logs::tail_begin(&file, static_cast<uint64_t>(choice_->last_lines), part.end));
    part.begin = std::max(part.begin, tail);
  }
  return part;
}

Status AttemptLogs::open() {
  std::vector<int> ranks;
  for (const int rank : list_learner_logs(dir_, number_))
    if (choice_->ranks.has(rank)) ranks.push_back(rank);
  // The order of the lines of one learner needs no times.
  if (ranks.size() > 1 || choice_->since_ms || choice_->until_ms)
    index_ = logs::read_index(dir_.root(), number_, ranks, begin_ms_);
  for (const int rank : ranks) {
    DL_TRY_ASSIGN(const logs::Part part, part_of(rank));
    merger_->add(part);
  }
  logs_ = ranks.size();
  return {};
}

void AttemptLogs::open_new() {
  for (const int rank : list_learner_logs(dir_, number_)) {
    if (!choice_->ranks.has(rank) || merger_->has(rank)) continue;
    merger_->add({rank});
    ++logs_;
  }
}

Result<bool> AttemptLogs::print_new() {
  DL_TRY_ASSIGN(const bool any, merger_->run());
  if (std::fflush(stdout) != 0) return errno_error("standard output", errno);
  return any;
}

}  // namespace dl::ctl
