// SPDX-License-Identifier: Apache-2.0
// The progress page of a learner (common/contract/progress_page.h), read only: its train step for values that come
// without one, and what the launcher measures by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/progress_page.h"
#include "launcher/metrics/found.h"

namespace dl::metrics {

struct PageView {
  bool attached = false;
  uint32_t state = 0;
  int64_t step = kNoStep;
  int64_t saved_step = kNoStep;
  uint64_t save_ms = 0, cost_ms = 0;
};

class ProgressView {
 public:
  ProgressView() = default;
  ProgressView(const ProgressView&) = delete;
  ProgressView& operator=(const ProgressView&) = delete;
  ~ProgressView();
  // If there is no such page, read() gives a view that is not attached.
  void open(const std::string& path);
  PageView read() const;

 private:
  const ProgressPage* page_ = nullptr;
};

// What the launcher knows by itself, from looks at the page. Pure.
//
//   train_steps_per_s  over the last 10 s, and at the end
//   samples_per_s      the same times the samples of a train step, where they are known
//   save_s             how long saves take until they are durable; reported after each save
//   save_cost_s        training time that a save costs
class Rates {
 public:
  static constexpr int64_t kEveryMs = 10'000;
  static constexpr int64_t kLeastMs = 1'000;

  explicit Rates(int64_t batch = 0) : batch_(batch) {}  // samples of a train step; 0: unknown
  // To be called often. `last`: this is the last call.
  void look(const PageView& page, int64_t now_ms, bool last, std::vector<Found>* found);

 private:
  int64_t batch_;
  std::optional<int64_t> from_ms_;
  int64_t from_step_ = 0;
  int64_t saved_step_ = kNoStep;
};

}  // namespace dl::metrics
