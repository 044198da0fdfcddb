// SPDX-License-Identifier: Apache-2.0
// Finds learners whose GPUs are not used. A learner counts as idle once none of its GPUs was used for as long as the
// site says, and as using them again after two reports of use in a row, so that a short blip changes nothing. A learner
// that waits for a save, a restore or its data counts as idle too, because its GPUs are. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/site/site_config.h"

namespace dl::supervise {

class IdleGpus {
 public:
  static constexpr int kUses = 2;  // reports of use in a row that end idleness
  // Without a report for so long, a learner counts as neither: it is not reported as idle until reports come again.
  static constexpr int64_t kSilenceMs = 120'000;

  explicit IdleGpus(size_t learners = 0, const SiteIdle& site = {}) : site_(site), learners_(learners) {}

  // A report: the highest use of the learner's GPUs of late, in percent; at_ms: any monotonic clock. The first one
  // counts as use.
  void add(int rank, int64_t at_ms, int percent);

  struct News {
    std::vector<int> idle;        // ranks that have become idle since the last look
    std::vector<int> used_again;  // ranks that were idle and use their GPUs again
    std::vector<int> unknown;     // ranks that were idle and send no reports any more
  };
  News look(int64_t now_ms);

  bool is_idle(int rank) const { return learners_[static_cast<size_t>(rank)].idle; }
  std::vector<int> idle() const;
  // For how long none of these learners used its GPUs; 0 for an empty list.
  int64_t unused_ms(const std::vector<int>& ranks, int64_t now_ms) const;

 private:
  struct State {
    bool heard = false, idle = false;
    int64_t heard_ms = 0, used_ms = 0;
    int uses = 0;  // reports of use in a row
  };
  SiteIdle site_;
  std::vector<State> learners_;
};

// "learner 3 has not used its 2 GPUs for 32m", "8 learners (0, 1, 2, ...) have not used their 16 GPUs for 30m".
std::string unused_text(const std::vector<int>& ranks, int gpus_each, int64_t unused_ms);
// "learner 3 uses its 2 GPUs again".
std::string used_again_text(const std::vector<int>& ranks, int gpus_each);
// "it is not known any more whether learner 3 uses its 2 GPUs".
std::string unknown_text(const std::vector<int>& ranks, int gpus_each);

}  // namespace dl::supervise
