// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <exception>

#include "checkpoint/client/committer.h"
#include "checkpoint/engine/slot.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/lease.h"
#include "checkpoint/store/out_of_memory.h"
#include "checkpoint/store/retire.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Committer::Committer(const Settings& settings, Io& io, Parts parts)
    : settings_(settings),
      io_(io),
      lease_token_(std::move(parts.lease_token)),
      page_(std::move(parts.page)),
      peers_(std::move(parts.group), settings.timeout_s),
      levels_(std::move(parts.levels)),
      sender_(std::move(parts.sender)),
      engine_(io, EngineSettings{settings.memory_bytes, settings.write_threads, settings.reuse,
                                 static_cast<uint32_t>(settings.rank)}) {
  history_.load(io, settings.dir);
}

const std::string& Committer::files_directory() const {
  return levels_ ? levels_->own_directory() : settings_.dir;
}

SavePrediction Committer::predict() const {
  const SavePrediction prediction{history_.durable_s(), history_.local_s(), history_.cost_s()};
  if (page_) page_->set_predictions(prediction.durable_s, prediction.local_s, prediction.cost_s);
  return prediction;
}

RetentionPolicy Committer::retention_now() const {
  RetentionPolicy policy = settings_.retention();
  if (sender_) policy.held = sender_->held();
  return policy;
}

void Committer::offer(const CheckpointName& name) {
  if (sender_) sender_->offer(name);
}

void Committer::leave() {
  if (is_leader() && settings_.recycle && check_lease(io_, settings_.dir, lease_token_))
    remove_slots(io_, settings_.dir);
}

SaveOutcome Committer::run(SaveRequest* request, std::vector<std::string>* retired) noexcept {
  Save save{*request, {}, {}, {}, false, 0, {}, {}};
  Status& status = save.outcome.status;
  try {
    status = or_out_of_memory([&] { return save_together(&save); });
  } catch (const std::exception& e) {
    status = Error{Errc::kInternal, e.what()};
  }
  *retired = std::move(save.retired);
  if (request->job && !save.written) request->job->abandon();
  if (!status) return std::move(save.outcome);
  if (request->job)
    ignore(or_out_of_memory([&]() -> Status {
             engine_.committed(*request->job, save.name, checkpoint_path(files_directory(), save.name));
             return {};
           }),
           "the next save stores again what did not change");
  save.outcome.durable_s = seconds_since(request->begin);
  remember_times(save);
  save.outcome.prediction = predict();
  if (page_) page_->set_saved_step(request->step);
  return std::move(save.outcome);
}

// Records how long the save took, to predict the next one; rank 0 also stores it for later runs.
void Committer::remember_times(const Save& save) {
  const SaveRequest& request = save.request;
  const double blocked_s = *request.blocked_s;
  SaveTimesRow row;
  row.step = request.step;
  row.bytes = request.state_bytes;
  // blocked_s is 0 if the program's call has not returned yet.
  row.blocked_s = blocked_s > 0 ? blocked_s : save.outcome.durable_s;
  row.local_s = save.local_s;
  row.durable_s = request.local_only ? 0 : save.outcome.durable_s;
  history_.add(row);
  if (is_leader()) history_.store(io_, settings_.dir);
}

// Only rank 0 calls this.
Result<CheckpointName> Committer::begin_save(int64_t step) {
  DL_TRY(check_lease(io_, settings_.dir, lease_token_));
  DL_TRY_ASSIGN(const CheckpointName name, next_checkpoint_name(io_, settings_.dir, step, above_));
  const std::string attempt = attempt_path(settings_.dir, name);
  const int rc = io_.mkdir(attempt);
  if (rc < 0) return io_error("make", attempt, rc);
  return name;
}

Result<CheckpointName> Committer::agree_on_name(Save* save) {
  const int64_t step = save->request.step;
  std::string begun;
  if (is_leader()) {
    auto name = or_out_of_memory([&] { return begin_save(step); });
    const std::string slot = name && settings_.recycle && !levels_ ? find_slot(io_, settings_.dir) : std::string();
    begun = name ? say_ok(format_checkpoint_name(*name) + slot) : say_error(name.error());
  }
  DL_TRY_ASSIGN(const std::string message, peers_.group().broadcast(begun, 1));
  DL_TRY_ASSIGN(const std::string text, hear(message));
  const size_t length = format_checkpoint_name(CheckpointName{}).size();
  const auto name = parse_checkpoint_name(std::string_view(text).substr(0, length));
  if (!name || (text.size() > length && !is_slot_name(text.substr(length))))
    return Error{Errc::kInternal, "rank 0 named the checkpoint '" + printable(text) + "'"};
  if (name->step != step)
    return Error{Errc::kInvalid, "rank 0 saves train step " + std::to_string(name->step) + ", this rank " +
                                     std::to_string(step) + ": all ranks must save the same train step"};
  if (text.size() > length) save->slot = settings_.dir + "/" + text.substr(length);
  return *name;
}

Status Committer::save_together(Save* save) {
  DL_TRY_ASSIGN(save->name, agree_on_name(save));
  const CheckpointName& name = save->name;
  auto part = or_out_of_memory([&] { return write_part(save); });
  const auto begin = Clock::now();
  auto messages = peers_.group().gather(part ? say_ok(*part) : say_error(part.error()));
  if (levels_) return commit_by_levels(save, messages);
  if (!is_leader()) {
    if (!messages) return std::move(messages).error();
    DL_TRY_ASSIGN(const std::string verdict, peers_.group().broadcast("", 4));
    auto heard = hear(verdict);
    if (!heard) return std::move(heard).error();
    save->outcome.commit_s = seconds_since(begin);
    return {};
  }
  Status outcome =
      messages ? or_out_of_memory([&] { return commit(save, *messages); }) : Status(std::move(messages).error());
  save->outcome.commit_s = seconds_since(begin);
  if (!outcome) ignore(discard_attempt(io_, settings_.dir, name), "the next run removes what is left");
  auto told = peers_.group().broadcast(outcome ? say_ok() : say_error(outcome.error()), 1);
  if (outcome) {
    offer(name);
    // A checkpoint that cannot be renamed now is tried again after the next save.
    const auto policy = retention_now();
    auto retired = settings_.recycle ? retire_into_slot(io_, settings_.dir, policy, name, &survey_memory_)
                                     : retire(io_, settings_.dir, policy, name, &survey_memory_);
    if (retired) save->retired = *std::move(retired);
  }
  if (!told && outcome) return std::move(told).error();
  return outcome;
}

Result<std::string> Committer::write_part(Save* save) {
  if (!save->request.prepared) return save->request.prepared.error();
  DL_TRY_ASSIGN(const std::string directory, attempt_directory(save->name));
  DL_TRY_ASSIGN(std::vector<MemberRecord> members,
                write_members(io_, directory, settings_.rank, &save->request.members));
  if (!save->request.job) {
    Part part = save->request.plan.part({}, {});
    part.members = std::move(members);
    return tell_part(save, std::move(part));
  }
  save->written = true;
  const FileIdentity identity{save->name, static_cast<uint32_t>(settings_.rank),
                              static_cast<uint32_t>(settings_.world_size)};
  DL_TRY(save->request.job->write(io_, engine_.queue(), directory, identity, save->slot));
  Part part = save->request.plan.part(save->request.job->places(), save->request.job->records());
  part.members = std::move(members);
  return tell_part(save, std::move(part));
}

Result<std::string> Committer::tell_part(Save* save, Part part) {
  if (!is_leader()) return format_part(part);
  save->own = std::move(part);
  return std::string();
}

// Only rank 0 calls this.
Status Committer::commit(Save* save, const std::vector<std::string>& messages) {
  DL_TRY_ASSIGN(const std::string text, assemble(save, messages));
  // The last check before publishing: a process that has lost the lease must not publish.
  DL_TRY(check_lease(io_, settings_.dir, lease_token_));
  return publish(io_, settings_.dir, save->name, text);
}

// Makes the text of the manifest from the reports of all ranks.
Result<std::string> Committer::assemble(Save* save, const std::vector<std::string>& messages) {
  const CheckpointName& name = save->name;
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
  manifest.metrics = save->request.metrics;
  DL_TRY(merge_parts(std::move(parts), &manifest));
  std::string text = format_manifest(manifest);
  if (text.size() > kMaxManifestBytes)
    return Error{Errc::kInvalid, "the manifest would have " + std::to_string(text.size()) +
                                     " bytes; allowed: up to 256 MiB; register fewer tensors, or larger ones"};
  // With this entry retention need not read the manifest again. If the save fails now, the entry is harmless, because
  // retention only uses entries of checkpoints that exist.
  survey_memory_[name.save_id] = CheckpointFacts{name, manifest.metrics, false, true, manifest.total_bytes()};
  return text;
}

}  // namespace dl::ckpt
