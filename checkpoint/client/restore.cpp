// SPDX-License-Identifier: Apache-2.0
// Context::restore and peek; restorer.h has the collective part.
#include <utility>

#include "checkpoint/client/context.h"
#include "checkpoint/client/members.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"

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
  Restored restored;
  for (bool healed = false;;) {
    DL_TRY_ASSIGN(restored, restore_from_levels(step, /*blobs_only=*/false, &healed));
    auto members = restore_members(restored.name);
    if (members) break;
    // Tensors have been loaded by now. kNotFound would mean that there is no checkpoint and that memory is unchanged,
    // so it becomes kIo.
    if (members.error().code == Errc::kNotFound) members.error().code = Errc::kIo;
    // A damaged member is treated as any other damage: the next older checkpoint is restored, completely.
    if (step != DLCKPT_LATEST || members.error().code != Errc::kCorrupt) return std::move(members).error();
    restorer_.remember_damage(restored.name, members.error());
  }
  remember_files();
  // It may be what an earlier run published and could not send.
  const bool from_there = fetched_ && fetched_->save_id == restored.name.save_id;
  if (sender_ && !from_there) sender_->offer(restored.name);
  *note = std::move(restored.note);
  good_step_ = restored.name.step;
  pacer_.restored(restored.name.step);
  if (page_) page_->set_saved_step(restored.name.step);
  return restored.name.step;
}

// The next save need not write data again that is in the files of the restored checkpoint.
void Context::remember_files() {
  const std::optional<Manifest> manifest = restorer_.take_manifest();
  if (!manifest) return;
  Committer& committer = commits_->when_idle();
  committer.engine().restored(*manifest, checkpoint_path(committer.files_directory(), manifest->name));
}

// What only the nodes or the object store have is copied to the checkpoint directory first. If something damaged was
// passed over, the nodes may have an intact copy of it, which is tried once.
Result<Restored> Context::restore_from_levels(int64_t step, bool blobs_only, bool* healed_already) {
  Committer& committer = commits_->when_idle();
  Peers& peers = committer.peers();
  Levels* const levels = committer.levels();
  const auto load = [&] { return blobs_only ? restorer_.peek(peers, step) : restorer_.restore(peers, step); };
  peers.group().start();
  if (!levels && settings_.objects.empty()) return load();
  std::string brought, healed;
  if (levels) DL_TRY(levels->recover(peers.group(), /*heal=*/false, &brought));
  if (!settings_.objects.empty()) {
    DL_TRY_ASSIGN(const std::string fetched, fetch_from_objects(step));
    brought += fetched;
  }
  auto restored = load();
  const bool passed_over = restored ? !restored->note.empty() : restored.error().code == Errc::kCorrupt;
  if (levels && passed_over && !std::exchange(*healed_already, true)) {
    peers.group().start();
    DL_TRY(levels->recover(peers.group(), /*heal=*/true, &healed));
    restorer_.forget_damage();
    restored = load();
  }
  // Only rank 0 knows these notes; its messages are the ones that people read.
  if (restored) {
    std::string& note = restored->note;
    note = brought + healed + note;
    if (note.size() > 2 && note.compare(note.size() - 2, 2, "; ") == 0) note.resize(note.size() - 2);
    return restored;
  }
  // If no checkpoint was found, the message also says which parts the nodes hold of checkpoints that are otherwise
  // lost.
  Error error = std::move(restored).error();
  for (const std::string* said : {&brought, &healed})
    if (!said->empty()) error.text += "; " + said->substr(0, said->size() - 2);
  return error;
}

Status Context::restore_members(const CheckpointName& name) {
  std::vector<StagedMember> staged;
  const auto stage = [&]() -> Status {
    if (registry_.members().empty()) return {};
    DL_TRY_ASSIGN(const Manifest manifest, load_stored_manifest(io_, settings_.dir, name));
    DL_TRY_ASSIGN(staged,
                  stage_members(io_, checkpoint_path(settings_.dir, name), manifest, registry_, settings_.rank));
    return {};
  };
  Group& group = commits_->when_idle().peers().group();
  auto all = agree_all(group, or_out_of_memory(stage));
  if (!all) {
    drop_members(io_, staged);
    return all;
  }
  return agree_all(group, install_members(io_, staged));
}

Result<int64_t> Context::peek(int64_t step, std::string* note) {
  note->clear();
  DL_TRY(check_step(step));
  ignore(finish_save_in_flight(), "dlckpt_wait tells");
  keep_lease();
  bool healed = false;
  DL_TRY_ASSIGN(Restored restored, restore_from_levels(step, /*blobs_only=*/true, &healed));
  *note = std::move(restored.note);
  return restored.name.step;
}

const std::string* Context::restored_blob(const std::string& path) const {
  const auto found = restorer_.blobs().find(path);
  return found == restorer_.blobs().end() ? nullptr : &found->second;
}

}  // namespace dl::ckpt
