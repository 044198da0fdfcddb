// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/pacer.h"

#include <utility>

#include "checkpoint/include/dlckpt.h"
#include "common/contract/checkpoint_interval.h"

namespace dl::ckpt {

Pacer::Pacer(const Rules& rules, Clock now) : rules_(rules), now_(std::move(now)), last_save_s_(now_()) {}

void Pacer::agree_through(std::unique_ptr<Group> group) {
  pace_.emplace(std::move(group), [this] {
    const double now_s = now_(), every_s = interval_s();
    return AgreedPace::Clock{now_s, every_s - (now_s - last_save_s_), every_s};
  });
}

// Without dlrun nobody has counted interruptions, so the mean time between them is the one assumed beforehand.
double Pacer::interval_s() const {
  if (!rules_.every_auto) return rules_.every_s;
  return choose_interval_s({prediction_.cost_s, prediction_.durable_s}, mean_time_to_interruption_s(0, 0));
}

bool Pacer::due_by_time(int64_t step) {
  if (pace_) return pace_->due(step);
  const double every_s = interval_s();
  return every_s > 0 && step != settled_step_ && now_() - last_save_s_ >= every_s;
}

void Pacer::arrive(int64_t step) {
  if (measures()) step_times_.end(now_(), step);
}

void Pacer::depart(int64_t step, bool saving) {
  if (measures()) step_times_.begin(now_(), step, saving);
}

int Pacer::decide(int64_t step, std::optional<ProgressPage::Request> asked) {
  int answer = 0;
  if (asked) {
    switch (*asked) {
      case ProgressPage::kNone:
        break;
      case ProgressPage::kSave:
        if (step != settled_step_) answer = DLCKPT_WANT_SAVE;
        break;
      case ProgressPage::kSaveAndExit:
      case ProgressPage::kSaveLocalAndExit:
        exit_local_ = *asked == ProgressPage::kSaveLocalAndExit;
        answer = DLCKPT_WANT_SAVE | DLCKPT_WANT_EXIT;
        break;
      case ProgressPage::kExitWithoutSave:
        answer = DLCKPT_WANT_EXIT;
        break;
    }
  } else if (due_by_time(step)) {
    answer = DLCKPT_WANT_SAVE;
  }
  // Every rank computes the same answer by itself, provided that the last save had the same outcome on all of them.
  if (answer == 0 && rules_.every_steps > 0 && step > 0 && step % rules_.every_steps == 0 && step != settled_step_)
    answer = DLCKPT_WANT_SAVE;
  if (answer & DLCKPT_WANT_EXIT) exit_step_ = step;
  return answer;
}

void Pacer::saved(int64_t step, bool saving) {
  last_save_s_ = now_();
  if (measures()) step_times_.begin(last_save_s_, step, saving);
}

void Pacer::restored(int64_t step) {
  settled_step_ = step;
  exit_step_ = -1;
  last_save_s_ = now_();
  step_times_.drop();
  if (pace_) pace_->restart();
}

}  // namespace dl::ckpt
