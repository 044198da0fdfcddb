// SPDX-License-Identifier: Apache-2.0
// Context::save: rank 0 opens an attempt, every rank writes its file and tells rank 0, rank 0 commits and tells all.
#include <cerrno>

#include "checkpoint/client/context.h"
#include "checkpoint/client/messages.h"
#include "checkpoint/client/save_plan.h"
#include "checkpoint/client/shard_writer.h"
#include "checkpoint/retention/retire.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "launcher/common/parse.h"

namespace dl::ckpt {
namespace {

int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Status Context::save(int64_t step) {
  if (step < 0 || step > kMaxStep)
    return Error{Errc::kInvalid, "train step " + std::to_string(step) + "; allowed: 0 to " + std::to_string(kMaxStep)};
  const bool stopping = exit_step_ == step;
  const bool attached = page_ && page_->state() != ProgressPage::kNotAttached;
  Status outcome;
  group_->start();  // also where nothing is done, so that ranks whose last save ended differently stay in step
  if (good_step_ != step) {
    keep_lease();
    if (attached) page_->set_state(ProgressPage::kSaving);
    const auto begin = Clock::now();
    outcome = save_together(step);
    const auto end = Clock::now();
    last_save_ = end;
    metrics_.clear();  // a value is that of one save
    if (outcome) {
      good_step_ = step;
      const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(end - begin).count();
      if (page_) page_->set_saved(step, static_cast<uint64_t>(took));
    }
  }
  if (attached) page_->set_state(stopping ? ProgressPage::kStopped : ProgressPage::kTraining);
  return outcome;
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

Status Context::save_together(int64_t step) {
  std::string begun;
  if (is_leader()) {
    auto name = begin_save(step);
    begun = name ? say_ok(format_checkpoint_name(*name)) : say_error(name.error());
  }
  DL_TRY_ASSIGN(const std::string message, group_->broadcast(begun, 1));
  DL_TRY_ASSIGN(const std::string text, hear(message));
  const auto name = parse_checkpoint_name(text);
  if (!name) return Error{Errc::kInternal, "rank 0 named the checkpoint '" + printable(text) + "'"};
  if (name->step != step)
    return Error{Errc::kInvalid, "rank 0 saves train step " + std::to_string(name->step) + ", this rank " +
                                     std::to_string(step) + ": all ranks must save the same"};

  Status known;
  if (settings_.world_size > 1 && registry_.needs_holders())
    known = or_out_of_memory([&] { return holders_.learn(*group_, registry_); });
  auto part = known ? or_out_of_memory([&] { return write_part(*name); }) : Result<std::string>(known.error());
  auto messages = group_->gather(part ? say_ok(*part) : say_error(part.error()));
  if (!is_leader()) {
    if (!messages) return std::move(messages).error();
    DL_TRY_ASSIGN(const std::string verdict, group_->broadcast("", 4));
    auto heard = hear(verdict);
    if (!heard) return std::move(heard).error();
    return {};
  }
  Status outcome =
      messages ? or_out_of_memory([&] { return commit(*name, *messages); }) : Status(std::move(messages).error());
  if (!outcome) ignore(discard_attempt(io_, settings_.dir, *name), "the next run removes what is left");
  auto told = group_->broadcast(outcome ? say_ok() : say_error(outcome.error()), 1);
  if (outcome)
    ignore(retire(io_, settings_.dir, settings_.retention(), *name, &survey_memory_),
           "tried again after the next save");
  if (!told && outcome) return std::move(told).error();
  return outcome;
}

Result<std::string> Context::write_part(const CheckpointName& name) {
  WorkList work = plan_save(registry_, settings_.rank, settings_.world_size,
                            settings_.world_size > 1 ? &holders_ : nullptr, settings_.max_files);
  if (work.items.empty() && !is_leader()) return format_part(work.part);
  const FileIdentity identity{name, static_cast<uint32_t>(settings_.rank), static_cast<uint32_t>(settings_.world_size)};
  DL_TRY_ASSIGN(WrittenFile written, write_data_file(io_, attempt_path(settings_.dir, name), identity, work.items));
  for (size_t i = 0; i < work.items.size(); ++i) work.set_place(i, 0, written.at[i]);
  work.part.files.push_back(std::move(written.record));
  return format_part(work.part);
}

// Rank 0 alone.
Status Context::commit(const CheckpointName& name, const std::vector<std::string>& messages) {
  DL_TRY_ASSIGN(const std::vector<std::string> texts, hear_all(messages));
  std::vector<Part> parts;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
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
  manifest.metrics = metrics_;
  DL_TRY(merge_parts(std::move(parts), &manifest));
  const std::string text = format_manifest(manifest);
  if (text.size() > kMaxManifestBytes) return Error{Errc::kInvalid, "the manifest would be larger than 256 MiB"};
  // Last look: whoever lost the lease must not publish.
  DL_TRY(check_lease(io_, settings_.dir, lease_token_));
  return publish(io_, settings_.dir, name, text);
}

}  // namespace dl::ckpt
