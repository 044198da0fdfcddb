// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/job_comment.h"

#include <fmt/core.h>

#include "common/base/parse.h"

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

}  // namespace

std::string format_comment(const JobComment& comment) {
  std::string text;
  if (!comment.user_text.empty()) text = comment.user_text.substr(0, 300) + kSeparator;
  text += fmt::format("dl:{} attempt={}", state_name(comment.state), comment.attempt);
  if (comment.step >= 0) text += fmt::format(" step={}", comment.step);
  if (comment.idle.gpus > 0) text += fmt::format(" idle={}@{}", comment.idle.gpus, comment.idle.since_s);
  if (comment.pace.step >= 0) text += " pace=" + format_pace_hint(comment.pace);
  if (!comment.scale.empty()) text += " scale=" + comment.scale;
  if (!comment.dir.empty()) text += " dir=" + comment.dir;
  if (!comment.reason.empty()) text += " reason=" + comment.reason;
  if (text.size() > kMaxComment) text.resize(kMaxComment);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::optional<JobComment> parse_comment(const std::string& text) {
  size_t at = our_part(text);
  if (at == std::string::npos) return std::nullopt;
  JobComment comment;
  comment.user_text = user_part(text);
  std::string ours = text.substr(at + 3);
  // The reason is free text and comes last. A directory may contain blanks and ends at " reason=".
  if (size_t r = ours.find(" reason="); r != std::string::npos) {
    comment.reason = ours.substr(r + 8);
    ours.resize(r);
  }
  if (size_t d = ours.find(" dir="); d != std::string::npos) {
    comment.dir = ours.substr(d + 5);
    ours.resize(d);
  }
  auto words = split(ours, ' ');
  comment.state = *parse_state(words[0]);
  for (const std::string& word : words) {
    if (word.rfind("attempt=", 0) == 0)
      if (auto n = parse_int(word.substr(8), 0, 1000000000)) comment.attempt = static_cast<int>(*n);
    if (word.rfind("step=", 0) == 0)
      if (auto n = parse_int(word.substr(5), 0, INT64_MAX)) comment.step = *n;
    if (word.rfind("pace=", 0) == 0) comment.pace = parse_pace_hint(std::string_view(word).substr(5));
    if (word.rfind("scale=", 0) == 0) comment.scale = word.substr(6);
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
