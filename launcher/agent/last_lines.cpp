// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/last_lines.h"

#include <algorithm>

namespace dl::agent {
namespace {

constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::string_view kTerminate = "terminate called after throwing an instance of '";
constexpr std::string_view kWhat = "  what():  ";

bool starts_with(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// The length of the UTF-8 sequence that begins at text[i], or 0 if none begins there.
size_t utf8_length(std::string_view text, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(i);
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k)
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  return length;
}

std::string shown(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size();) {
    const auto c = static_cast<unsigned char>(line[i]);
    if (c == '\t' || (c >= 0x20 && c < 0x7f)) {
      text += line[i++];
    } else if (const size_t length = utf8_length(line, i); length > 0) {
      text += line.substr(i, length);
      i += length;
    } else {
      text += '?';
      ++i;
    }
  }
  return text;
}

// torch puts "[rank3]: " before each line of a traceback; this removes it.
std::string without_rank(const std::string& line) {
  if (!starts_with(line, "[rank")) return line;
  const size_t end = line.find_first_not_of("0123456789", 5);
  return end != std::string::npos && line.compare(end, 3, "]: ") == 0 ? line.substr(end + 3) : line;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

}  // namespace

void LastLines::feed(std::string_view data) {
  while (!data.empty()) {
    const size_t end = data.find_first_of("\n\r");
    const std::string_view piece = data.substr(0, end);
    if (open_.size() < kLineBytes) open_ += piece.substr(0, kLineBytes - open_.size());
    if (end == std::string_view::npos) return;
    end_line(data[end] == '\r');
    data.remove_prefix(end + 1);
  }
}

void LastLines::end_line(bool replaced_by_next) {
  // An empty line (after the "\r" of "\r\n", for example) is not kept.
  if (is_blank(open_)) {
    open_.clear();
    if (!replaced_by_next) drop_last_ = false;
    return;
  }
  std::string line = shown(open_);
  open_.clear();
  if (drop_last_ && !ring_.empty()) ring_.pop_back();
  drop_last_ = replaced_by_next;
  follow_exception(line);
  ring_.push_back(std::move(line));
  if (ring_.size() > kLines) ring_.pop_front();
  ++count_;
}

void LastLines::follow_exception(const std::string& whole) {
  const std::string line = without_rank(whole);
  if (line.find(kTraceback) != std::string::npos) {
    in_traceback_ = true;
  } else if (in_traceback_ && !is_blank(line) && line[0] != ' ' && line[0] != '\t') {
    in_traceback_ = false;
    exception_ = line;
    exception_at_ = count_;
  } else if (starts_with(line, kTerminate)) {
    after_terminate_ = true;
    const size_t quote = line.find('\'', kTerminate.size());
    exception_ = line.substr(kTerminate.size(), quote == std::string::npos ? quote : quote - kTerminate.size());
    exception_at_ = count_;
  } else if (after_terminate_ && starts_with(line, kWhat)) {
    after_terminate_ = false;
    exception_ += ": " + line.substr(kWhat.size());
    exception_at_ = count_;
  } else {
    after_terminate_ = false;
  }
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> all(ring_.begin(), ring_.end());
  if (is_blank(open_)) return all;
  if (drop_last_ && !all.empty()) all.pop_back();
  all.push_back(shown(open_));
  if (all.size() > kLines) all.erase(all.begin());
  return all;
}

std::string LastLines::exception() const {
  // Some programs end without a last line feed.
  if (in_traceback_ && !is_blank(open_) && open_[0] != ' ' && open_[0] != '\t') return shown(open_);
  return exception_at_ >= 0 && count_ - exception_at_ <= static_cast<int64_t>(kLines) ? exception_ : std::string();
}

}  // namespace dl::agent
