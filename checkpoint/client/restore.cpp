// SPDX-License-Identifier: Apache-2.0
// Context::restore and peek; the collective part is restorer.h's.
#include "checkpoint/client/context.h"

namespace dl::ckpt {
namespace {

Status check_step(int64_t step) {
  if (step == DLCKPT_LATEST || (step >= 0 && step <= kMaxStep)) return {};
  return Error{Errc::kInvalid, "train step " + std::to_string(step) + "; allowed: 0 to " + std::to_string(kMaxStep) +
                                   ", or DLCKPT_LATEST"};
}

}  // namespace

Result<int64_t> Context::restore(int64_t step, std::string* note) {
  note->clear();
  DL_TRY(check_step(step));
  ignore(finish_save_in_flight(), "dlckpt_wait tells");
  warm_up();
  keep_lease();
  group_->start();
  DL_TRY_ASSIGN(Restored restored, restorer_->restore(step));
  *note = std::move(restored.note);
  good_step_ = asked_step_ = restored.name.step;
  exit_step_ = -1;
  last_save_ = Clock::now();
  if (page_) page_->set_saved_step(restored.name.step);
  return restored.name.step;
}

Result<int64_t> Context::peek(int64_t step, std::string* note) {
  note->clear();
  DL_TRY(check_step(step));
  ignore(finish_save_in_flight(), "dlckpt_wait tells");
  keep_lease();
  group_->start();
  DL_TRY_ASSIGN(Restored restored, restorer_->peek(step));
  *note = std::move(restored.note);
  return restored.name.step;
}

const std::string* Context::restored_blob(const std::string& path) const {
  const auto found = restorer_->blobs().find(path);
  return found == restorer_->blobs().end() ? nullptr : &found->second;
}

}  // namespace dl::ckpt
