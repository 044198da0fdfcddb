// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/stop_agreement.h"

#include <algorithm>

namespace dl::supervise {

void StopAgreement::begin(int64_t request, uint32_t kind, int world_size) {
  request_ = request;
  kind_ = kind;
  world_size_ = world_size;
  open_ = true;
  decided_step_.reset();
  answers_.clear();
  gone_.clear();
  acted_.clear();
}

bool StopAgreement::upgrade(uint32_t kind) {
  if (!open_ || decided_step_) return false;
  // A stop without a save replaces any kind with one, whatever their numbers.
  kind_ = kind == ProgressPage::kExitWithoutSave ? kind : std::max(kind_, kind);
  return true;
}

void StopAgreement::answer(int rank, int64_t request, const StepAnswer& answer) {
  if (open_ && request == request_) answers_[rank] = answer;
}

void StopAgreement::gone(int rank) {
  if (rank >= world_size_) return;
  gone_[rank] = true;
  close_if_all_acted();
}

StopDecision StopAgreement::decide() const {
  StopDecision decision;
  if (!open_ || decided_step_) return decision;
  if (answers_.size() + gone_.size() < static_cast<size_t>(world_size_)) return decision;
  bool finishing = !gone_.empty();
  bool any_attached = false, all_attached = true;
  int64_t highest = ProgressPage::kNoStep;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (gone_.count(rank) != 0) continue;
    auto it = answers_.find(rank);
    if (it == answers_.end()) return decision;
    const StepAnswer& answer = it->second;
    if (answer.state == ProgressPage::kFinished || answer.state == ProgressPage::kStopped) finishing = true;
    any_attached = any_attached || answer.attached;
    all_attached = all_attached && answer.attached;
    if (answer.attached) highest = std::max(highest, answer.step);
  }
  decision.finishing = finishing;
  decision.none_attached = !any_attached;
  decision.kind = StopDecision::Kind::kWithdraw;
  if (finishing) {
    decision.reason = "learners are finishing";
  } else if (!any_attached) {
    decision.reason = "no learner uses the checkpoint library";
  } else if (kind_ == ProgressPage::kSave && !all_attached) {
    decision.reason = "not all learners have started training";
  } else {
    decision.kind = StopDecision::Kind::kDecide;
    decision.step = highest + 1;
  }
  return decision;
}

void StopAgreement::decided(const StopDecision& decision) {
  if (decision.kind == StopDecision::Kind::kDecide) {
    decided_step_ = decision.step;
    close_if_all_acted();
  } else if (decision.kind == StopDecision::Kind::kWithdraw) {
    open_ = false;
  }
}

void StopAgreement::acted(int rank, int64_t request) {
  if (!open_ || request < request_) return;
  acted_[rank] = true;
  close_if_all_acted();
}

void StopAgreement::close_if_all_acted() {
  if (!open_ || !decided_step_ || acted_.size() + gone_.size() < static_cast<size_t>(world_size_)) return;
  for (int rank = 0; rank < world_size_; ++rank)
    if (acted_.count(rank) == 0 && gone_.count(rank) == 0) return;
  open_ = false;
}

}  // namespace dl::supervise
