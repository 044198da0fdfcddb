// SPDX-License-Identifier: Apache-2.0
// Context::save: the part of a save that the training loop waits for. What is registered is planned and laid out, the
// background thread is sent off (commit.cpp), and the state is copied to staging memory.
#include <cerrno>

#include "checkpoint/client/context.h"
#include "checkpoint/client/save_in_flight.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"

namespace dl::ckpt {
namespace {

constexpr unsigned kSaveFlags = DLCKPT_SYNC | DLCKPT_LAZY | DLCKPT_SKIP_IF_BUSY;

}  // namespace

Status Context::save(int64_t step, unsigned flags, std::string* note) {
  if (step < 0 || step > kMaxStep)
    return Error{Errc::kInvalid, "train step " + std::to_string(step) + "; allowed: 0 to " + std::to_string(kMaxStep)};
  if ((flags & ~kSaveFlags) != 0) return Error{Errc::kInvalid, "unknown flags " + std::to_string(flags)};
  const auto begin = Clock::now();
  const bool stopping = pacer_.exits_at(step);
  const bool sync = stopping || (flags & DLCKPT_SYNC) || settings_.mode == Settings::kSync;
  const bool lazy = !sync && ((flags & DLCKPT_LAZY) || settings_.mode == Settings::kLazy);
  if ((flags & DLCKPT_SKIP_IF_BUSY) && !stopping) {
    DL_TRY_ASSIGN(const bool busy, busy_anywhere());
    if (busy) return Error{Errc::kBusy, "a save is still in flight; this one was skipped, as asked", EALREADY};
  }
  auto former = finish_save_in_flight();
  note_slowdown();
  if (!former && note && !in_flight_->told)
    *note = "the save of train step " + std::to_string(in_flight_->step) + " failed: " + former.error().text;

  const bool attached = page_ && page_->state() != ProgressPage::kNotAttached;
  Status outcome;
  group_->start();  // also where nothing is done, so that ranks whose last save ended differently stay in step
  if (good_step_ != step) {
    keep_lease();
    if (attached) page_->set_state(ProgressPage::kSaving);
    outcome = begin_save_in_flight(step, lazy);
    metrics_.clear();  // a value is that of one save
    if (outcome && sync) {
      outcome = finish_save_in_flight();
      in_flight_->told = true;
    }
    in_flight_->blocked_s = std::chrono::duration<double>(Clock::now() - begin).count();
    stats_.total_blocked_s += in_flight_->blocked_s;
    pacer_.saved(step, background_.busy());
  }
  if (outcome) pacer_.settle(step);
  if (attached) page_->set_state(stopping ? ProgressPage::kStopped : ProgressPage::kTraining);
  return outcome;
}

// Rank 0 knows last that a save has ended; the others then wait for theirs, which takes no time.
Result<bool> Context::busy_anywhere() {
  if (settings_.world_size == 1) return background_.busy();
  if (!skipping_)
    skipping_.emplace(make_file_group(io_, settings_.dir, settings_.run_id + "\nskip", settings_.rank,
                                      settings_.world_size, settings_.timeout_s));
  DL_TRY_ASSIGN(const std::string answer, skipping_->tell(background_.busy() ? "busy" : "idle"));
  return answer == "busy";
}

Status Context::begin_save_in_flight(int64_t step, bool lazy) {
  // What the former one holds of many tensors takes milliseconds to free: the background's work.
  std::shared_ptr<SaveInFlight> former = std::move(in_flight_);
  in_flight_ = std::make_unique<SaveInFlight>();
  SaveInFlight* save = in_flight_.get();
  save->step = step;
  save->begin = Clock::now();
  save->metrics = metrics_;
  save->local_only = levels_ && pacer_.local_save_at(step);
  if (settings_.world_size > 1 && registry_.needs_holders())
    save->prepared = or_out_of_memory([&] { return holders_.learn(*group_, registry_); });
  if (save->prepared) save->prepared = or_out_of_memory([&] { return prepare(save); });
  CopyPool& pool = engine_.pool();
  auto running = background_.run(
      [this, save, former = std::move(former)]() mutable {
        former.reset();
        run_save(save);
      },
      [this] { remove_retired(); });
  if (!running) {
    save->outcome = std::move(running);
    return save->outcome;
  }
  if (!save->job) return {};
  if (lazy) {
    copying_.store(true, std::memory_order_relaxed);
    const auto copying = copier_.run([this, save, &pool] {
      save->job->copy(pool);
      copying_.store(false, std::memory_order_release);
    });
    if (copying) return {};
    copying_.store(false, std::memory_order_relaxed);  // no thread for it: now, then
  }
  save->job->copy(pool);
  return {};
}

Status Context::prepare(SaveInFlight* save) {
  DL_TRY_ASSIGN(save->members, open_members(io_, registry_, settings_.rank));
  save->plan.tensors = planned_tensors();
  save->plan.blobs = plan_blobs(registry_, settings_.rank);
  if (save->plan.empty() && !is_leader()) return {};  // no file
  for (WriteItem& item : save->plan.blobs.items) {
    save->blobs.emplace_back(static_cast<const char*>(item.data), item.bytes());
    item.data = save->blobs.back().data();
  }
  std::vector<WriteItem> items = save->plan.items();
  for (const WriteItem& item : items) save->state_bytes += item.bytes();
  const bool same_tensors = laid_out_ && laid_out_ == save->plan.tensors;
  laid_out_.reset();
  DL_TRY_ASSIGN(save->job, engine_.prepare(std::move(items), same_tensors));
  laid_out_ = save->plan.tensors;
  return {};
}

// Who holds which replicated box is asked in each save.
std::shared_ptr<const WorkList> Context::planned_tensors() {
  const bool asks_holders = settings_.world_size > 1 && registry_.needs_holders();
  if (!tensor_plan_ || asks_holders || planned_version_ != registry_.tensors_version()) {
    tensor_plan_ =
        std::make_shared<WorkList>(plan_tensors(registry_, settings_.rank, settings_.world_size,
                                                settings_.world_size > 1 ? &holders_ : nullptr, settings_.max_files));
    planned_version_ = registry_.tensors_version();
  }
  return tensor_plan_;
}

// The first save should not wait for the kernel to clear pages; reading a checkpoint takes longer than that.
void Context::warm_up() {
  constexpr uint64_t kWorthIt = uint64_t{64} << 20;
  uint64_t bytes = 0;
  MemoryPlace place;
  for (const auto& [path, tensor] : registry_.tensors()) {
    bytes += tensor.bytes() / static_cast<uint64_t>(tensor.replicated ? settings_.world_size : 1);
    for (const RegisteredPart& part : tensor.parts)
      if (!part.place.on_host()) place = part.place;
  }
  if (bytes >= kWorthIt && settings_.mode != Settings::kSync) engine_.warm(bytes, place);
}

Status Context::finish_save_in_flight() {
  copier_.wait();
  background_.wait();
  if (!in_flight_) return {};
  if (!in_flight_->counted) count_save();
  return in_flight_->outcome;
}

// Where this rank's files are put first.
const std::string& Context::files_directory() const {
  return levels_ ? levels_->own_directory() : settings_.dir;
}

// Into the statistics.
void Context::count_save() {
  SaveInFlight& save = *in_flight_;
  save.counted = true;
  stats_.step = save.step;
  stats_.outcome = save.outcome;
  stats_.bytes = save.state_bytes;
  stats_.written_bytes = stats_.reused_bytes = 0;
  stats_.copy_s = stats_.write_s = stats_.fsync_s = 0;
  if (save.job) {
    const SaveJob::Times times = save.job->times();
    stats_.copy_s = times.copy_s;
    stats_.write_s = times.write_s;
    stats_.fsync_s = times.fsync_s;
    if (save.outcome) {
      stats_.written_bytes = save.job->file_bytes();
      stats_.reused_bytes = save.job->reused_bytes();
    }
  }
  stats_.commit_s = save.commit_s;
  stats_.level = save.outcome && save.local_only ? 1 : 0;
  stats_.durable_s = save.durable_s;
  stats_.total_written_bytes += stats_.written_bytes;
  ++(save.outcome ? stats_.saves : stats_.failed_saves);
  save.job.reset();
  save.blobs.clear();
}

void Context::before_mutation() {
  if (copying_.load(std::memory_order_acquire)) copier_.wait();
}

Status Context::wait(double timeout_s, int64_t* durable_step) {
  const bool idle = timeout_s < 0 ? (background_.wait(), true) : background_.wait_for(std::min(timeout_s, 1e8));
  Status outcome;
  if (idle) {
    outcome = finish_save_in_flight();
    if (in_flight_) in_flight_->told = true;
  } else {
    outcome =
        Error{Errc::kTimeout, "the save of train step " + std::to_string(in_flight_->step) + " is still in flight"};
  }
  if (durable_step) *durable_step = good_step_;
  return outcome;
}

SaveStats Context::stats() {
  if (!background_.busy()) ignore(finish_save_in_flight(), "told in the statistics");
  SaveStats now = stats_;
  if (in_flight_ && in_flight_->counted) now.blocked_s = in_flight_->blocked_s;
  return now;
}

}  // namespace dl::ckpt
