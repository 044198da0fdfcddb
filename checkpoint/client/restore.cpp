// SPDX-License-Identifier: Apache-2.0
// Context::restore: rank 0 verifies and chooses, every rank checks that the choice fits what is registered, then every
// rank reads what it needs, verifying again each block it touches.
#include <algorithm>
#include <cerrno>

#include "checkpoint/client/context.h"
#include "checkpoint/client/messages.h"
#include "checkpoint/client/shard_reader.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"
#include "launcher/common/parse.h"

namespace dl::ckpt {

Result<int64_t> Context::restore(int64_t step, std::string* note) {
  note->clear();
  if (step != DLCKPT_LATEST && (step < 0 || step > kMaxStep))
    return Error{Errc::kInvalid, "train step " + std::to_string(step) + "; allowed: 0 to " + std::to_string(kMaxStep) +
                                     ", or DLCKPT_LATEST"};
  keep_lease();
  group_->start();
  DL_TRY_ASSIGN(const CheckpointName name, agree_on_checkpoint(step, note));
  DL_TRY(load_together(name));
  good_step_ = name.step;
  exit_step_ = -1;
  last_save_ = Clock::now();
  if (page_) page_->set_saved_step(name.step);
  return name.step;
}

// Rank 0 alone. The newest that verifies.
Result<CheckpointName> Context::choose(int64_t step, std::string* note) {
  DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(io_, settings_.dir));
  std::string passed_over;
  bool any = false;
  for (const CheckpointName& name : names) {
    if (step != DLCKPT_LATEST && name.step != step) continue;
    any = true;
    auto manifest = verify_checkpoint(io_, settings_.dir, name);
    if (manifest) {
      *note = passed_over;
      return name;
    }
    passed_over += (passed_over.empty() ? "" : "; ") + std::string("passed over ") + format_checkpoint_name(name) +
                   ": " + manifest.error().text;
  }
  if (any)
    return Error{Errc::kCorrupt, "no checkpoint in " + settings_.dir +
                                     (step == DLCKPT_LATEST ? "" : " of train step " + std::to_string(step)) +
                                     " verifies: " + passed_over};
  return Error{Errc::kNotFound, "no checkpoint" +
                                    (step == DLCKPT_LATEST ? "" : " of train step " + std::to_string(step)) + " in " +
                                    settings_.dir};
}

Result<CheckpointName> Context::agree_on_checkpoint(int64_t step, std::string* note) {
  std::string decision;
  if (is_leader()) {
    std::string remark;
    auto name = or_out_of_memory([&] { return choose(step, &remark); });
    decision = name ? say_ok(format_checkpoint_name(*name) + remark) : say_error(name.error());
  }
  // Rank 0 reads everything first, which may take long.
  DL_TRY_ASSIGN(const std::string message, group_->broadcast(decision, 4));
  DL_TRY_ASSIGN(const std::string text, hear(message));
  const size_t length = format_checkpoint_name(CheckpointName{}).size();
  const auto name = parse_checkpoint_name(std::string_view(text).substr(0, length));
  if (!name) return Error{Errc::kInternal, "rank 0 chose the checkpoint '" + printable(text) + "'"};
  if (step != DLCKPT_LATEST && name->step != step)
    return Error{Errc::kInvalid, "rank 0 restores train step " + std::to_string(name->step) + ", this rank " +
                                     std::to_string(step) + ": all ranks must restore the same"};
  *note = text.substr(length);
  return *name;
}

Status Context::load_together(const CheckpointName& name) {
  auto manifest = or_out_of_memory([&] { return load_manifest(io_, settings_.dir, name); });
  auto plan = manifest ? or_out_of_memory([&] { return plan_reads(*manifest, registry_); })
                       : Result<ReadPlan>(manifest.error());
  DL_TRY(agree(plan ? Status() : Status(plan.error())));
  const std::string path = checkpoint_path(settings_.dir, name);
  auto blobs = or_out_of_memory([&] { return read_blobs(io_, path, *manifest, settings_.rank); });
  DL_TRY(agree(blobs ? Status() : Status(blobs.error())));
  auto read = or_out_of_memory([&] { return execute_reads(io_, path, *manifest, *plan); });
  // It verified a moment ago, and registered memory may have been changed: whatever went wrong, that is DLCKPT_E_IO.
  if (!read && read.error().sys_errno != ENOMEM) read.error().code = Errc::kIo;
  DL_TRY(agree(read));
  restored_blobs_ = *std::move(blobs);
  return {};
}

}  // namespace dl::ckpt
