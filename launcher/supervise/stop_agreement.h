// SPDX-License-Identifier: Apache-2.0
// How all learners come to act at one train step: the decisions of dlrun's side of common/contract/progress_page.h. One
// request is open at a time; another may start when every learner has acted on it, because a learner that is already
// saving at S cannot be told of another step. Pure; the supervisor sends the messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/contract/progress_page.h"

namespace dl::supervise {

// What is known of one learner at the time of the decision.
struct StepAnswer {
  bool attached = false;
  uint32_t state = ProgressPage::kNotAttached;
  int64_t step = ProgressPage::kNoStep;
};

struct StopDecision {
  enum class Kind { kWait, kDecide, kWithdraw };
  Kind kind = Kind::kWait;
  int64_t step = -1;   // kDecide
  std::string reason;  // kWithdraw: why not
  bool none_attached = false;
  bool finishing = false;  // a learner has come to its end by itself: let the others finish too
};

class StopAgreement {
 public:
  // Opens a request that ranks 0 to world_size - 1 answer; higher ranks take no part. kind: a ProgressPage::Request.
  void begin(int64_t request, uint32_t kind, int world_size);
  // Makes the kind stronger (save -> save and exit, exit without save). False if no request is open, or it is decided.
  bool upgrade(uint32_t kind);

  void answer(int rank, int64_t request, const StepAnswer& answer);
  // A learner ended, well or badly.
  void gone(int rank);

  // kWait until every learner has answered or is gone, then once kDecide with S = highest announced step + 1, or
  // kWithdraw. A save alone needs all learners attached; a stop needs one: a learner that attaches later finds the
  // decided request on its page, and can only be at or before S.
  StopDecision decide() const;
  // To be called when the result of decide() has been carried out.
  void decided(const StopDecision& decision);
  // The learner has acted upon the request (Progress.done_request).
  void acted(int rank, int64_t request);

  bool open() const { return open_; }
  bool is_decided() const { return decided_step_.has_value(); }
  std::optional<int64_t> step() const { return decided_step_; }
  uint32_t kind() const { return kind_; }
  int64_t request() const { return request_; }

 private:
  void close_if_all_acted();
  int64_t request_ = 0;
  uint32_t kind_ = ProgressPage::kNone;
  int world_size_ = 0;
  bool open_ = false;
  std::optional<int64_t> decided_step_;
  std::map<int, StepAnswer> answers_;
  std::map<int, bool> gone_, acted_;
};

}  // namespace dl::supervise
