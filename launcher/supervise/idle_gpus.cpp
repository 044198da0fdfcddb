// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/idle_gpus.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"

namespace dl::supervise {
namespace {

constexpr size_t kNamed = 8;

std::string gpus_text(int gpus) {
  return gpus == 1 ? "GPU" : fmt::format("{} GPUs", gpus);
}

std::string learners_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("learner {}", ranks.front());
  std::string names;
  for (size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) names += fmt::format("{}{}", i > 0 ? ", " : "", ranks[i]);
  return fmt::format("{} learners ({}{})", ranks.size(), names, ranks.size() > kNamed ? ", ..." : "");
}

// In whole minutes, from two minutes on.
std::string time_text(int64_t ms) {
  const int64_t seconds = ms / 1000;
  return format_duration(std::chrono::seconds(seconds < 120 ? seconds : seconds / 60 * 60));
}

}  // namespace

void IdleGpus::add(int rank, int64_t at_ms, int percent) {
  State& state = learners_[static_cast<size_t>(rank)];
  const bool used = percent >= site_.below;
  state.uses = used ? state.uses + 1 : 0;
  if (!state.heard || (used && (!state.idle || state.uses >= kUses))) state.used_ms = at_ms;
  state.heard = true;
  state.heard_ms = at_ms;
}

IdleGpus::News IdleGpus::look(int64_t now_ms) {
  News news;
  const int64_t after_ms = site_.after.count() * 1000;
  if (after_ms == 0) return news;
  for (size_t i = 0; i < learners_.size(); ++i) {
    State& state = learners_[i];
    if (state.heard && now_ms - state.heard_ms > kSilenceMs) state.heard = false;
    // Idle time ends with the last report, not now: the GPUs may have been used since.
    const bool idle = state.heard && state.heard_ms - state.used_ms >= after_ms;
    if (idle == state.idle) continue;
    state.idle = idle;
    std::vector<int>& now_other = idle ? news.idle : state.heard ? news.used_again : news.unknown;
    now_other.push_back(static_cast<int>(i));
  }
  return news;
}

std::vector<int> IdleGpus::idle() const {
  std::vector<int> ranks;
  for (size_t i = 0; i < learners_.size(); ++i)
    if (learners_[i].idle) ranks.push_back(static_cast<int>(i));
  return ranks;
}

int64_t IdleGpus::unused_ms(const std::vector<int>& ranks, int64_t now_ms) const {
  int64_t used_ms = ranks.empty() ? now_ms : INT64_MIN;
  for (const int rank : ranks) used_ms = std::max(used_ms, learners_[static_cast<size_t>(rank)].used_ms);
  return now_ms - used_ms;
}

std::string unused_text(const std::vector<int>& ranks, int gpus_each, int64_t unused_ms) {
  const int gpus = static_cast<int>(ranks.size()) * gpus_each;
  return fmt::format("{} {} not used {} {} for {}", learners_text(ranks), ranks.size() == 1 ? "has" : "have",
                     ranks.size() == 1 ? "its" : "their", gpus_text(gpus), time_text(unused_ms));
}

std::string used_again_text(const std::vector<int>& ranks, int gpus_each) {
  const int gpus = static_cast<int>(ranks.size()) * gpus_each;
  return fmt::format("{} {} {} {} again", learners_text(ranks), ranks.size() == 1 ? "uses" : "use",
                     ranks.size() == 1 ? "its" : "their", gpus_text(gpus));
}

std::string unknown_text(const std::vector<int>& ranks, int gpus_each) {
  std::string text = used_again_text(ranks, gpus_each);
  text.resize(text.size() - std::string_view(" again").size());
  return "it is not known any more whether " + text;
}

}  // namespace dl::supervise
