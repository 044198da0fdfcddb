// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/line_reader.h"

#include <algorithm>
#include <utility>

namespace dl::logs {
namespace {

constexpr size_t kBlock = 64 << 10;
constexpr size_t kShortBlock = 4 << 10;  // most lines are shorter
constexpr uint64_t kFarthestBack = 64 << 20;

}  // namespace

LineReader::LineReader(std::string root, std::string relative, uint64_t begin, bool keep_open)
    : root_(std::move(root)), relative_(std::move(relative)), at_(begin), read_at_(begin), keep_open_(keep_open) {}

Result<std::shared_ptr<LogFile>> LineReader::file() {
  if (open_) return open_;
  DL_TRY_ASSIGN(LogFile opened, LogFile::open(root_, relative_));
  auto file = std::make_shared<LogFile>(std::move(opened));
  if (keep_open_) open_ = file;
  return file;
}

// A place within a line is moved to the beginning of the next one.
Status LineReader::find_line(LogFile* file) {
  found_ = true;
  if (at_ == 0) return {};
  uint64_t before = at_ - 1;
  std::string block;
  DL_TRY(file->read(&before, 1, &block));
  if (before != at_ - 1 || block.empty() || block == "\n") return {};
  for (uint64_t at = at_;;) {
    DL_TRY(file->read(&at, kShortBlock, &block));
    if (block.empty()) break;
    const size_t newline = block.find('\n');
    at_ = read_at_ = at + (newline == std::string::npos ? block.size() : newline + 1);
    if (newline != std::string::npos) break;
    at += block.size();
  }
  return {};
}

// A log that became shorter was cut on a file system without holes (log_limit.h of the agent): its newest part moved.
Status LineReader::end_of(const LogFile& file) {
  at_end_ = true;
  DL_TRY_ASSIGN(const uint64_t size, file.size());
  if (size < read_at_) {
    rest_.clear();
    at_ = read_at_ = size;
  }
  return {};
}

Result<bool> LineReader::read(uint64_t end, size_t most, std::deque<std::string>* lines) {
  at_end_ = false;
  if (at_ >= end) return true;
  DL_TRY_ASSIGN(const auto file, this->file());
  if (!found_) DL_TRY(find_line(file.get()));
  if (at_ >= end) return true;
  std::string block;
  uint64_t from = read_at_;
  DL_TRY(file->read(&from, most, &block));
  if (block.empty()) {
    DL_TRY(end_of(*file));
    return true;
  }
  if (from != read_at_ && !rest_.empty()) lines->push_back(take_rest());  // a dropped place cuts the line before it
  if (rest_.empty()) at_ = from;
  read_at_ = from + block.size();
  rest_ += block;
  give_lines(end, lines);
  return at_ >= end;
}

void LineReader::give_lines(uint64_t end, std::deque<std::string>* lines) {
  size_t start = 0;
  for (size_t newline = rest_.find('\n'); newline != std::string::npos; newline = rest_.find('\n', start)) {
    lines->push_back(rest_.substr(start, newline - start));
    at_ += newline + 1 - start;
    start = newline + 1;
    if (at_ >= end) break;
  }
  if (at_ >= end) {  // what was read beyond the end is read again with the next part
    rest_.clear();
    read_at_ = at_;
    return;
  }
  rest_.erase(0, start);
  while (rest_.size() > kMostLine) {
    lines->push_back(rest_.substr(0, kMostLine));
    rest_.erase(0, kMostLine);
    at_ += kMostLine;
  }
}

std::string LineReader::take_rest() {
  at_ = read_at_;
  return std::exchange(rest_, {});
}

Result<uint64_t> tail_begin(LogFile* file, uint64_t count, uint64_t end) {
  DL_TRY_ASSIGN(uint64_t size, file->size());
  size = std::min(size, end);
  if (count == 0) return size;
  const uint64_t farthest = size > kFarthestBack ? size - kFarthestBack : 0;
  uint64_t breaks = 0;
  std::string block;
  for (uint64_t at = size; at > farthest;) {
    // Blocks lie at multiples of their size, so that none is a hole in part alone (log_file.h).
    const uint64_t begin = (at - 1) / kBlock * kBlock;
    uint64_t from = begin;
    DL_TRY(file->read(&from, static_cast<size_t>(at - begin), &block));
    if (from != begin) block.clear();  // dropped: what was read lies behind it, and is known
    for (size_t i = block.size(); i-- > 0;) {
      if (block[i] != '\n' || begin + i == size - 1) continue;
      if (++breaks == count) return begin + i + 1;
    }
    at = begin;
  }
  return farthest;
}

}  // namespace dl::logs
