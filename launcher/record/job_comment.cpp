// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/job_comment.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/parse.h"
#include "common/contract/vote_hint.h"

namespace dl::record {
namespace {

constexpr size_t kMaxComment = 1000;
constexpr const char* kSeparator = " | ";

// The offset of slurm-dl's part, or npos. It begins at the front or after the separator, and names an existing state.
size_t our_part(const std::string& text) {
  for (size_t at = text.find("dl:"); at != std::string::npos; at = text.find("dl:", at + 1)) {
    if (at != 0 && (at < 3 || text.compare(at - 3, 3, kSeparator) != 0)) continue;
    size_t end = text.find(' ', at);
    std::string name = text.substr(at + 3, end == std::string::npos ? end : end - at - 3);
    if (parse_state(name)) return at;
  }
  return std::string::npos;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// How a directory stands in the comment: as it is, or between quotation marks if a blank at its end would be lost, if
// it has control characters, or if its end would be looked for in the wrong place.
std::string dir_text(const std::string& dir) {
  const bool plain = dir.back() != ' ' && dir.find(" reason=") == std::string::npos &&
                     std::none_of(dir.begin(), dir.end(), is_control);
  if (plain) return dir;
  std::string text = "\"";
  for (const char c : dir) {
    if (is_control(c))
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      text += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  }
  return text + "\"";
}

// Reads what dir_text() has put between quotation marks, and returns how many bytes it takes; 0: it is cut off.
size_t read_quoted(const std::string& text, size_t begin, std::string* dir) {
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '"') return i + 1 - begin;
    if (text[i] != '\\') {
      *dir += text[i];
    } else if (text.compare(i, 2, "\\x") == 0 && i + 3 < text.size()) {
      *dir += static_cast<char>(std::strtol(text.substr(i + 2, 2).c_str(), nullptr, 16));
      i += 3;
    } else if (++i < text.size()) {
      *dir += text[i];
    }
  }
  dir->clear();
  return 0;
}

// Takes the directory and the reason off the end of slurm-dl's part. The reason is free text and comes last.
void take_texts(std::string* ours, JobComment* comment) {
  const size_t dir = ours->find(" dir=");
  size_t reason = ours->find(" reason=");
  if (dir < reason && ours->compare(dir + 5, 1, "\"") == 0) {
    const size_t size = read_quoted(*ours, dir + 5, &comment->dir);
    reason = size == 0 ? std::string::npos : ours->find(" reason=", dir + 5 + size);
  } else if (dir < reason) {
    comment->dir = ours->substr(dir + 5, reason == std::string::npos ? reason : reason - dir - 5);
  }
  if (reason != std::string::npos) comment->reason = ours->substr(reason + 8);
  ours->resize(std::min({dir, reason, ours->size()}));
}

}  // namespace

std::string format_comment(const JobComment& comment) {
  std::string text;
  if (!comment.user_text.empty()) text = comment.user_text.substr(0, 300) + kSeparator;
  text += fmt::format("dl:{} attempt={}", state_name(comment.state), comment.attempt);
  if (comment.step >= 0) text += fmt::format(" step={}", comment.step);
  if (comment.idle.gpus > 0) text += fmt::format(" idle={}@{}", comment.idle.gpus, comment.idle.since_s);
  if (comment.pace.step >= 0) text += " pace=" + format_pace_hint(comment.pace);
  if (!comment.scale.empty()) text += " scale=" + comment.scale;
  if (comment.vote) text += fmt::format(" vote={}", *comment.vote);
  if (!comment.dir.empty()) text += " dir=" + dir_text(comment.dir);
  if (!comment.reason.empty()) text += " reason=" + comment.reason;
  if (text.size() > kMaxComment) text.resize(kMaxComment);
  for (char& c : text)
    if (is_control(c)) c = ' ';
  return text;
}

std::optional<JobComment> parse_comment(const std::string& text) {
  size_t at = our_part(text);
  if (at == std::string::npos) return std::nullopt;
  JobComment comment;
  comment.user_text = user_part(text);
  std::string ours = text.substr(at + 3);
  take_texts(&ours, &comment);
  auto words = split(ours, ' ');
  comment.state = *parse_state(words[0]);
  for (const std::string& word : words) {
    if (word.rfind("attempt=", 0) == 0)
      if (auto n = parse_int(word.substr(8), 0, 1000000000)) comment.attempt = static_cast<int>(*n);
    if (word.rfind("step=", 0) == 0)
      if (auto n = parse_int(word.substr(5), 0, INT64_MAX)) comment.step = *n;
    if (word.rfind("pace=", 0) == 0) comment.pace = parse_pace_hint(std::string_view(word).substr(5));
    if (word.rfind("scale=", 0) == 0) comment.scale = word.substr(6);
    if (word.rfind("vote=", 0) == 0) comment.vote = parse_vote_hint(std::string_view(word).substr(5));
    if (word.rfind("idle=", 0) == 0) comment.idle = parse_idle_hint(std::string_view(word).substr(5));
  }
  return comment;
}

std::string user_part(const std::string& text) {
  size_t at = our_part(text);
  if (at == std::string::npos) return text;
  return at < 3 ? std::string() : text.substr(0, at - 3);
}

}  // namespace dl::record
