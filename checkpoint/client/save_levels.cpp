// SPDX-License-Identifier: Apache-2.0
// The steps of a save after all ranks' files are durable on their nodes, if there is a node-local level: the save is
// committed there first. checkpoint/levels/levels.h explains the steps.
#include <algorithm>
#include <chrono>

#include "checkpoint/client/committer.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/lease.h"
#include "checkpoint/store/out_of_memory.h"

namespace dl::ckpt {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Result<std::string> Committer::attempt_directory(const CheckpointName& name) {
  if (levels_) return levels_->begin(name);
  return attempt_path(settings_.dir, name);
}

// `messages` (rank 0): the reports of the ranks, or the error.
Status Committer::commit_by_levels(Save* save, const Result<std::vector<std::string>>& messages) {
  const CheckpointName& name = save->name;
  Result<std::string> text = std::string();
  if (is_leader()) {
    text =
        messages ? or_out_of_memory([&] { return assemble(save, *messages); }) : Result<std::string>(messages.error());
  } else if (!messages) {
    levels_->discard(name);
    return messages.error();
  }
  const auto drop_shared_attempt = [&] {
    if (is_leader()) ignore(discard_attempt(io_, settings_.dir, name), "the next run removes what is left");
  };
  auto committed = levels_->commit_local(peers_.group(), name, text);
  if (!committed) {
    levels_->discard(name);
    drop_shared_attempt();
    return std::move(committed).error();
  }
  save->local_s = seconds_since(save->request.begin);
  const auto manifest = or_out_of_memory([&] { return parse_manifest(*committed); });
  const auto shared = [](const FileRecord& file) { return file.origin.has_value(); };
  const bool shares = manifest && std::any_of(manifest->files.begin(), manifest->files.end(), shared);
  // Removed early to free space, unless the partner's copy may share files with the former one.
  if (!shares) levels_->retire_local(name);
  DL_TRY(agree_all(peers_.group(), manifest ? Status() : Status(manifest.error())));
  if (settings_.partner && settings_.world_size > 1) {
    DL_TRY_ASSIGN(Exchange* const exchange, peers_.exchange());
    ignore(levels_->copy_to_partner(peers_.group(), exchange, *manifest),
           "the copy in the checkpoint directory follows");
  }
  if (shares) levels_->retire_local(name);
  if (save->request.local_only) {
    drop_shared_attempt();
    return {};
  }
  auto outcome = agree_all(peers_.group(), or_out_of_memory([&] { return levels_->copy_to_shared(*manifest); }));
  if (is_leader()) {
    if (outcome) outcome = check_lease(io_, settings_.dir, lease_token_);
    if (outcome) outcome = publish(io_, settings_.dir, name, *committed);
    if (!outcome) drop_shared_attempt();
  }
  outcome = agree_all(peers_.group(), outcome);
  save->outcome.commit_s = seconds_since(save->request.begin) - save->local_s;
  if (outcome && is_leader()) {
    offer(name);
    // A checkpoint that cannot be renamed now is tried again after the next save.
    auto retired = retire(io_, settings_.dir, retention_now(), name, &survey_memory_);
    if (retired) save->retired = *std::move(retired);
  }
  return outcome;
}

}  // namespace dl::ckpt
