// SPDX-License-Identifier: Apache-2.0
// Context::fetch_from_objects: before a restore, rank 0 copies from the object store (objects=) to the checkpoint
// directory what is newer there. The other ranks wait, and are told now and then that it goes on.
#include <algorithm>
#include <chrono>

#include "checkpoint/client/context.h"
#include "checkpoint/client/object_program.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"

namespace dl::ckpt {
namespace {

constexpr const char* kStillFetching = "still fetching";
constexpr double kTellEvery_s = 10;

}  // namespace

// If there is nothing to go on from, the error that the store gives is that of the restore: a program that took it for
// "no checkpoint" would start anew.
Result<std::string> Context::fetch_as_leader(int64_t step, const std::function<Status()>& tick) {
  Committer& committer = commits_->when_idle();
  DL_TRY_ASSIGN(const std::vector<CheckpointName> here, scan_checkpoints(io_, settings_.dir));
  const auto has_step = [step](const CheckpointName& name) { return name.step == step; };
  if (step != DLCKPT_LATEST && std::any_of(here.begin(), here.end(), has_step)) return std::string();
  std::vector<std::string> words{"fetch", settings_.objects, settings_.dir}, remarks;
  if (step != DLCKPT_LATEST) words.insert(words.end(), {"--step", std::to_string(step)});
  DL_TRY_ASSIGN(const ObjectProgram program, sender_->program());
  const auto answer = run_object_program(program, words, committer.lease_token(), tick, &remarks);
  const std::string place = "objects=" + settings_.objects + ": ";
  if (!answer) {
    if (here.empty()) return Error{Errc::kIo, place + answer.error().text};
    return place + answer.error().text + ", so that it is not known whether it has a newer checkpoint; ";
  }
  if (answer->size() == 2)
    if (const auto newest = parse_checkpoint_name(answer->back())) committer.stay_above(newest->generation());
  std::string note;
  for (const std::string& remark : remarks) note += place + remark + "; ";
  fetched_ = answer->empty() ? std::nullopt : parse_checkpoint_name(answer->front());
  if (const auto& fetched = fetched_)
    note += "train step " + std::to_string(fetched->step) + " was fetched from " + settings_.objects + "; ";
  return note;
}

Result<std::string> Context::fetch_from_objects(int64_t step) {
  Group& group = commits_->when_idle().peers().group();
  if (settings_.rank == 0) {
    auto told = Clock::now();
    const auto tick = [&]() -> Status {
      keep_lease();
      const double quiet_s = std::chrono::duration<double>(Clock::now() - told).count();
      if (settings_.world_size == 1 || quiet_s < std::min(kTellEvery_s, settings_.timeout_s / 4)) return {};
      told = Clock::now();
      auto sent = group.broadcast(say_ok(kStillFetching), 1);
      return sent ? Status() : Status(std::move(sent).error());
    };
    auto fetched = fetch_as_leader(step, tick);
    if (settings_.world_size == 1) return fetched;
    auto sent = group.broadcast(fetched ? say_ok() : say_error(fetched.error()), 1);
    if (!sent && fetched) return std::move(sent).error();
    return fetched;
  }
  for (;;) {
    DL_TRY_ASSIGN(const std::string message, group.broadcast("", 1));
    DL_TRY_ASSIGN(const std::string text, hear(message));
    if (text != kStillFetching) return std::string();
  }
}

}  // namespace dl::ckpt
