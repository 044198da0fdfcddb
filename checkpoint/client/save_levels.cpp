// SPDX-License-Identifier: Apache-2.0
// Where there is a node-local level, a save is committed there first: what comes after all ranks' files are durable on
// their nodes. The steps are those of checkpoint/levels/levels.h.
#include <algorithm>

#include "checkpoint/client/context.h"
#include "checkpoint/client/save_in_flight.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/out_of_memory.h"

namespace dl::ckpt {

Result<std::string> Context::attempt_directory(const CheckpointName& name) {
  if (levels_) return levels_->begin(name);
  return attempt_path(settings_.dir, name);
}

// `messages` (rank 0): what the ranks wrote, or why not.
Status Context::commit_by_levels(SaveInFlight* save, const CheckpointName& name,
                                 const Result<std::vector<std::string>>& messages) {
  Result<std::string> text = std::string();
  if (is_leader()) {
    text = messages ? or_out_of_memory([&] { return assemble(save, name, *messages); })
                    : Result<std::string>(messages.error());
  } else if (!messages) {
    levels_->discard(name);
    return messages.error();
  }
  const auto drop_shared_attempt = [&] {
    if (is_leader()) ignore(discard_attempt(io_, settings_.dir, name), "the next run removes what is left");
  };
  auto committed = levels_->commit_local(*group_, name, text);
  if (!committed) {
    levels_->discard(name);
    drop_shared_attempt();
    return std::move(committed).error();
  }
  save->local_s = std::chrono::duration<double>(Clock::now() - save->begin).count();
  const auto manifest = or_out_of_memory([&] { return parse_manifest(*committed); });
  const auto shared = [](const FileRecord& file) { return file.origin.has_value(); };
  const bool shares = manifest && std::any_of(manifest->files.begin(), manifest->files.end(), shared);
  // Early, for the space; but a partner's copy may share files with the former one.
  if (!shares) levels_->retire_local(name);
  DL_TRY(agree_all(*group_, manifest ? Status() : Status(manifest.error())));
  if (settings_.partner && settings_.world_size > 1) {
    DL_TRY_ASSIGN(Exchange* const exchange, restorer_->exchange());
    ignore(levels_->copy_to_partner(*group_, exchange, *manifest), "the copy in the checkpoint directory follows");
  }
  if (shares) levels_->retire_local(name);
  if (save->local_only) {
    drop_shared_attempt();
    return {};
  }
  auto outcome = agree_all(*group_, or_out_of_memory([&] { return levels_->copy_to_shared(*manifest); }));
  if (is_leader()) {
    if (outcome) outcome = check_lease(io_, settings_.dir, lease_token_);
    if (outcome) outcome = publish(io_, settings_.dir, name, *committed);
    if (!outcome) drop_shared_attempt();
  }
  outcome = agree_all(*group_, outcome);
  save->commit_s = std::chrono::duration<double>(Clock::now() - save->begin).count() - save->local_s;
  if (outcome && is_leader()) note_retired(retire(io_, settings_.dir, settings_.retention(), name, &survey_memory_));
  return outcome;
}

// For the prediction of the next; rank 0 keeps it for later runs.
void Context::remember_times(const SaveInFlight& save) {
  SaveTimesRow row;
  row.step = save.step;
  row.bytes = save.state_bytes;
  // The training loop may not have gone on yet.
  row.blocked_s = save.blocked_s > 0 ? save.blocked_s.load() : save.durable_s;
  row.local_s = save.local_s;
  row.durable_s = save.local_only ? 0 : save.durable_s;
  history_.add(row);
  if (is_leader()) history_.store(io_, settings_.dir);
  tell_prediction();
}

}  // namespace dl::ckpt
