// SPDX-License-Identifier: Apache-2.0
// The part of a save that runs in the background: rank 0 opens an attempt, every rank writes its files and tells rank
// 0, rank 0 commits and tells all.
#include <cerrno>
#include <exception>

#include "checkpoint/client/context.h"
#include "checkpoint/client/save_in_flight.h"
#include "checkpoint/engine/slot.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/retire.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void Context::run_save(SaveInFlight* save) noexcept {
  try {
    save->outcome = or_out_of_memory([&] { return save_together(save); });
  } catch (const std::exception& e) {
    save->outcome = Error{Errc::kInternal, e.what()};
  }
  if (save->job && !save->written) save->job->abandon();
  if (!save->outcome) return;
  if (save->job)
    ignore(or_out_of_memory([&]() -> Status {
             engine_.committed(*save->job, save->name, checkpoint_path(files_directory(), save->name));
             return {};
           }),
           "the next save stores again what did not change");
  good_step_ = save->step;
  save->durable_s = std::chrono::duration<double>(Clock::now() - save->begin).count();
  remember_times(*save);
  if (page_) page_->set_saved_step(save->step);
}

// Rank 0 alone.
Result<CheckpointName> Context::begin_save(int64_t step) {
  DL_TRY(check_lease(io_, settings_.dir, lease_token_));
  DL_TRY_ASSIGN(const CheckpointName name, next_checkpoint_name(io_, settings_.dir, step));
  const std::string attempt = attempt_path(settings_.dir, name);
  const int rc = io_.mkdir(attempt);
  if (rc < 0) return io_error("make", attempt, rc);
  return name;
}

Result<CheckpointName> Context::agree_on_name(SaveInFlight* save) {
  const int64_t step = save->step;
  std::string begun;
  if (is_leader()) {
    auto name = or_out_of_memory([&] { return begin_save(step); });
    const std::string slot = name && settings_.recycle && !levels_ ? find_slot(io_, settings_.dir) : std::string();
    begun = name ? say_ok(format_checkpoint_name(*name) + slot) : say_error(name.error());
  }
  DL_TRY_ASSIGN(const std::string message, group_->broadcast(begun, 1));
  DL_TRY_ASSIGN(const std::string text, hear(message));
  const size_t length = format_checkpoint_name(CheckpointName{}).size();
  const auto name = parse_checkpoint_name(std::string_view(text).substr(0, length));
  if (!name || (text.size() > length && !is_slot_name(text.substr(length))))
    return Error{Errc::kInternal, "rank 0 named the checkpoint '" + printable(text) + "'"};
  if (name->step != step)
    return Error{Errc::kInvalid, "rank 0 saves train step " + std::to_string(name->step) + ", this rank " +
                                     std::to_string(step) + ": all ranks must save the same"};
  if (text.size() > length) save->slot = settings_.dir + "/" + text.substr(length);
  return *name;
}

Status Context::save_together(SaveInFlight* save) {
  DL_TRY_ASSIGN(const CheckpointName name, agree_on_name(save));
  save->name = name;
  auto part = or_out_of_memory([&] { return write_part(save, name); });
  const auto begin = Clock::now();
  auto messages = group_->gather(part ? say_ok(*part) : say_error(part.error()));
  if (levels_) return commit_by_levels(save, name, messages);
  if (!is_leader()) {
    if (!messages) return std::move(messages).error();
    DL_TRY_ASSIGN(const std::string verdict, group_->broadcast("", 4));
    auto heard = hear(verdict);
    if (!heard) return std::move(heard).error();
    save->commit_s = std::chrono::duration<double>(Clock::now() - begin).count();
    return {};
  }
  Status outcome =
      messages ? or_out_of_memory([&] { return commit(save, name, *messages); }) : Status(std::move(messages).error());
  save->commit_s = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!outcome) ignore(discard_attempt(io_, settings_.dir, name), "the next run removes what is left");
  auto told = group_->broadcast(outcome ? say_ok() : say_error(outcome.error()), 1);
  if (outcome) {
    const auto policy = settings_.retention();
    note_retired(settings_.recycle ? retire_into_slot(io_, settings_.dir, policy, name, &survey_memory_)
                                   : retire(io_, settings_.dir, policy, name, &survey_memory_));
  }
  if (!told && outcome) return std::move(told).error();
  return outcome;
}

// What cannot be renamed away now is tried again after the next save.
void Context::note_retired(Result<std::vector<std::string>> folders) {
  if (folders) retired_ = *std::move(folders);
}

// Giving back the space of a gigabyte took the file system a quarter of a second (ext4 with discard): the checkpoint is
// durable before that, and whoever waits for it goes on.
void Context::remove_retired() noexcept {
  for (const std::string& folder : retired_)
    ignore(or_out_of_memory([&] { return remove_tree(io_, folder); }), "the next run removes it");
  retired_.clear();
}

Result<std::string> Context::write_part(SaveInFlight* save, const CheckpointName& name) {
  if (!save->prepared) return save->prepared.error();
  DL_TRY_ASSIGN(const std::string directory, attempt_directory(name));
  DL_TRY_ASSIGN(std::vector<MemberRecord> members, write_members(io_, directory, settings_.rank, &save->members));
  if (!save->job) {
    Part part = save->plan.part(nullptr);
    part.members = std::move(members);
    return tell_part(save, std::move(part));
  }
  save->written = true;
  const FileIdentity identity{name, static_cast<uint32_t>(settings_.rank), static_cast<uint32_t>(settings_.world_size)};
  DL_TRY(save->job->write(io_, engine_.queue(), directory, identity, save->slot));
  Part part = save->plan.part(&save->job->places());
  part.members = std::move(members);
  part.files = save->job->records();
  return tell_part(save, std::move(part));
}

Result<std::string> Context::tell_part(SaveInFlight* save, Part part) {
  if (!is_leader()) return format_part(part);
  save->own = std::move(part);
  return std::string();
}

// Rank 0 alone.
Status Context::commit(SaveInFlight* save, const CheckpointName& name, const std::vector<std::string>& messages) {
  DL_TRY_ASSIGN(const std::string text, assemble(save, name, messages));
  // Last look: whoever lost the lease must not publish.
  DL_TRY(check_lease(io_, settings_.dir, lease_token_));
  return publish(io_, settings_.dir, name, text);
}

// The manifest.
Result<std::string> Context::assemble(SaveInFlight* save, const CheckpointName& name,
                                      const std::vector<std::string>& messages) {
  DL_TRY_ASSIGN(const std::vector<std::string> texts, hear_all(messages));
  std::vector<Part> parts;
  parts.push_back(std::move(save->own));
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    auto part = parse_part(texts[rank]);
    if (!part) return std::move(part).error().with_context("rank " + std::to_string(rank));
    parts.push_back(*std::move(part));
  }
  Manifest manifest;
  manifest.name = name;
  manifest.world_size = settings_.world_size;
  manifest.created_ms = wall_clock_ms();
  manifest.writer = std::string("libdlckpt ") + dlckpt_version();
  manifest.run_id = settings_.run_id;
  manifest.metrics = save->metrics;
  DL_TRY(merge_parts(std::move(parts), &manifest));
  std::string text = format_manifest(manifest);
  if (text.size() > kMaxManifestBytes) return Error{Errc::kInvalid, "the manifest would be larger than 256 MiB"};
  // Retention need not read it again; nothing is remembered of a checkpoint that is not there afterwards.
  survey_memory_[name.save_id] = CheckpointFacts{name, manifest.metrics, false, true, manifest.total_bytes()};
  return text;
}

}  // namespace dl::ckpt
