// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/straggler.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/median.h"

namespace dl::supervise {
namespace {

constexpr size_t kFewestToCompare = 3;
constexpr double kMads = 5, kShare = 0.25;
constexpr double kMuchLonger = 2.5;  // a report has one train step more or less: up to twice

}  // namespace

void StepTimes::add(int64_t at_ms, int64_t step) {
  if (last_step_ >= 0 && step > last_step_ && at_ms > last_ms_) {
    each_ms_.push_back(static_cast<double>(at_ms - last_ms_) / static_cast<double>(step - last_step_));
    in_each_.push_back(step - last_step_);
    if (each_ms_.size() > kWindow) {
      each_ms_.pop_front();
      in_each_.pop_front();
    }
    steps_ += step - last_step_;
  } else if (step < last_step_) {
    each_ms_.clear();
    in_each_.clear();
  }
  last_ms_ = at_ms;
  last_step_ = step;
}

std::optional<double> StepTimes::median_ms() const {
  if (each_ms_.size() < kFewest) return std::nullopt;
  return median({each_ms_.begin(), each_ms_.end()});
}

std::optional<double> StepTimes::steady_ms() const {
  const auto usual = median_ms();
  if (!usual) return std::nullopt;
  double sum = 0;
  int64_t steps = 0;
  for (size_t i = 0; i < each_ms_.size(); ++i) {
    if (each_ms_[i] > kMuchLonger * *usual) continue;
    sum += each_ms_[i] * static_cast<double>(in_each_[i]);
    steps += in_each_[i];
  }
  return sum / static_cast<double>(steps);
}

double StepTimes::spread_ms() const {
  if (each_ms_.empty()) return 0;
  const std::vector<double> times(each_ms_.begin(), each_ms_.end());
  return median_deviation(times, median(times));
}

std::vector<Straggler> find_stragglers(const std::vector<std::optional<double>>& step_ms) {
  std::vector<double> known;
  for (const auto& time : step_ms)
    if (time) known.push_back(*time);
  std::vector<Straggler> found;
  if (known.size() < kFewestToCompare) return found;
  const double middle = median(known);
  const double most = middle + std::max(kMads * median_deviation(known, middle), kShare * middle);
  for (size_t rank = 0; rank < step_ms.size(); ++rank)
    if (step_ms[rank] && *step_ms[rank] > most)
      found.push_back({static_cast<int>(rank), *step_ms[rank], middle, static_cast<int>(known.size())});
  return found;
}

std::string describe(const Straggler& straggler) {
  const auto readable = [](double ms) {
    return ms < 1000 ? fmt::format("{:.3g} ms", ms) : fmt::format("{:.3g} s", ms / 1000);
  };
  return fmt::format("slow: its train step takes {}, the median of {} learners is {}", readable(straggler.step_ms),
                     straggler.compared, readable(straggler.usual_ms));
}

std::vector<Straggler> SlowLearners::look(const std::vector<Straggler>& stragglers) {
  std::vector<Straggler> news;
  auto next = stragglers.begin();
  for (size_t rank = 0; rank < learners_.size(); ++rank) {
    State& state = learners_[rank];
    const bool stands_out = next != stragglers.end() && static_cast<size_t>(next->rank) == rank;
    state.in = stands_out ? state.in + 1 : 0;
    state.out = stands_out ? 0 : state.out + 1;
    if (stands_out && (state.in >= kTimes || !state.note.empty())) {
      if (state.note.empty()) news.push_back(*next);
      state.note = describe(*next);
    } else if (state.out >= kTimes) {
      state.note.clear();
    }
    if (stands_out) ++next;
  }
  return news;
}

}  // namespace dl::supervise
