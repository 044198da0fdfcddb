// SPDX-License-Identifier: Apache-2.0
// Context::save: the part of a save for which the training loop waits. It plans and lays out the registered state,
// starts the background thread (commit_thread.h), and copies the state to staging memory.
#include <cerrno>

#include "checkpoint/client/context.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"

namespace dl::ckpt {
namespace {

constexpr unsigned kSaveFlags = DLCKPT_SYNC | DLCKPT_LAZY | DLCKPT_SKIP_IF_BUSY;

}  // namespace

Status Context::save(int64_t step, unsigned flags, std::string* note) {
  if (step < 0 || step > kMaxStep)
    return Error{Errc::kInvalid, "train step " + std::to_string(step) + "; allowed: 0 to " + std::to_string(kMaxStep)};
  if ((flags & ~kSaveFlags) != 0)
    return Error{Errc::kInvalid, "the flags of the save are " + std::to_string(flags) +
                                     "; allowed: a set of DLCKPT_SYNC, DLCKPT_LAZY, DLCKPT_SKIP_IF_BUSY"};
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

  if (sender_ && note && note->empty()) *note = sender_->take_warning();

  const bool attached = page_ && page_->state() != ProgressPage::kNotAttached;
  Status outcome;
  commits_->when_idle()
      .peers()
      .group()
      .start();  // also if nothing is done, so that ranks whose last saves ended differently stay in step
  if (good_step_ != step) {
    keep_lease();
    if (attached) page_->set_state(ProgressPage::kSaving);
    outcome = begin_save_in_flight(step, lazy);
    metrics_.clear();  // a metric belongs to one save only
    if (outcome && sync) {
      outcome = finish_save_in_flight();
      in_flight_->told = true;
    }
    const double blocked_s = std::chrono::duration<double>(Clock::now() - begin).count();
    *in_flight_->blocked_s = blocked_s;
    stats_.total_blocked_s += blocked_s;
    pacer_.saved(step, commits_->busy());
  }
  if (outcome) pacer_.settle(step);
  if (attached) page_->set_state(stopping ? ProgressPage::kStopped : ProgressPage::kTraining);
  return outcome;
}

// Rank 0 is the last to know that a save has ended. When it says so, the other ranks wait for their own, which takes no
// time.
Result<bool> Context::busy_anywhere() {
  if (settings_.world_size == 1) return commits_->busy();
  if (!skipping_)
    skipping_.emplace(make_file_group(io_, settings_.dir, settings_.run_id + "\nskip", settings_.rank,
                                      settings_.world_size, settings_.timeout_s));
  DL_TRY_ASSIGN(const std::string answer, skipping_->tell(commits_->busy() ? "busy" : "idle"));
  return answer == "busy";
}

Status Context::begin_save_in_flight(int64_t step, bool lazy) {
  Committer& committer = commits_->when_idle();
  in_flight_.emplace();
  SaveInFlight* const save = &*in_flight_;
  save->step = step;
  SaveRequest request;
  request.step = step;
  request.begin = Clock::now();
  request.metrics = metrics_;
  request.local_only = save->local_only = committer.levels() && pacer_.local_save_at(step);
  request.blocked_s = save->blocked_s;
  if (settings_.world_size > 1 && registry_.needs_holders())
    request.prepared = or_out_of_memory([&] { return holders_.learn(committer.peers().group(), registry_); });
  if (request.prepared) request.prepared = or_out_of_memory([&] { return prepare(committer.engine(), &request); });
  save->job = request.job;
  save->state_bytes = request.state_bytes;
  CopyPool& pool = committer.engine().pool();
  auto running = commits_->begin(std::move(request));
  if (!running) {
    save->outcome = SaveOutcome();
    save->outcome->status = running;
    count_save();
    return running;
  }
  if (!save->job) return {};
  save->job->wait_for_devices();
  if (lazy) {
    copying_.store(true, std::memory_order_relaxed);
    const auto copying = copier_.run([this, job = save->job.get(), &pool] {
      job->copy(pool);
      copying_.store(false, std::memory_order_release);
    });
    if (copying) return {};
    copying_.store(false, std::memory_order_relaxed);  // no thread could be started, so it copies at once
  }
  save->job->copy(pool);
  return {};
}

Status Context::prepare(Engine& engine, SaveRequest* request) {
  DL_TRY_ASSIGN(request->members, open_members(io_, registry_, settings_.rank));
  SavePlan& plan = request->plan;
  plan.tensors = planned_tensors();
  plan.blobs = plan_blobs(registry_, settings_.rank);
  if (plan.empty() && settings_.rank != 0) return {};  // this rank writes no file
  for (WriteItem& item : plan.blobs.items) {
    in_flight_->blobs.emplace_back(static_cast<const char*>(item.data), item.bytes());
    item.data = in_flight_->blobs.back().data();
  }
  std::vector<WriteItem> items = plan.items();
  for (const WriteItem& item : items) request->state_bytes += item.bytes();
  const bool same_tensors = laid_out_ && laid_out_ == plan.tensors;
  laid_out_.reset();
  DL_TRY_ASSIGN(request->job, engine.prepare(std::move(items), same_tensors));
  laid_out_ = plan.tensors;
  return {};
}

// The holders of replicated boxes are asked for in each save, so the plan is made again if there are any.
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

// The first save should not have to wait for the kernel to clear pages. Reading a checkpoint takes longer than clearing
// them, so they are allocated during a restore.
void Context::warm_up() {
  constexpr uint64_t kWorthIt = uint64_t{64} << 20;
  uint64_t bytes = 0;
  MemoryPlace place;
  for (const auto& [path, tensor] : registry_.tensors()) {
    bytes += tensor.bytes() / static_cast<uint64_t>(tensor.replicated() ? settings_.world_size : 1);
    if (tensor.plain()) continue;
    for (const RegisteredPart& part : tensor.parts())
      if (!part.place.on_host()) place = part.place;
  }
  if (bytes >= kWorthIt && settings_.mode != Settings::kSync) commits_->when_idle().engine().warm(bytes, place);
}

Status Context::finish_save_in_flight() {
  copier_.wait();
  commits_->wait();
  if (!in_flight_) return {};
  if (!in_flight_->outcome) {
    in_flight_->outcome = commits_->take_outcome();
    if (!in_flight_->outcome) {  // an exception ended it before it could begin
      in_flight_->outcome.emplace();
      in_flight_->outcome->status = Error{Errc::kInternal, "out of memory", ENOMEM};
    }
    count_save();
  }
  return in_flight_->outcome->status;
}

// Updates this thread's knowledge and the statistics with the outcome of the save.
void Context::count_save() {
  SaveInFlight& save = *in_flight_;
  const SaveOutcome& outcome = *save.outcome;
  stats_.step = save.step;
  stats_.outcome = outcome.status;
  stats_.bytes = save.state_bytes;
  stats_.written_bytes = stats_.reused_bytes = 0;
  stats_.copy_s = stats_.write_s = stats_.fsync_s = 0;
  if (save.job) {
    const SaveJob::Times times = save.job->times();
    stats_.copy_s = times.copy_s;
    stats_.write_s = times.write_s;
    stats_.fsync_s = times.fsync_s;
    if (outcome.status) {
      stats_.written_bytes = save.job->file_bytes();
      stats_.reused_bytes = save.job->reused_bytes();
    }
  }
  stats_.commit_s = outcome.commit_s;
  stats_.level = outcome.status && save.local_only ? 1 : 0;
  stats_.durable_s = outcome.durable_s;
  stats_.total_written_bytes += stats_.written_bytes;
  ++(outcome.status ? stats_.saves : stats_.failed_saves);
  if (outcome.status) {
    good_step_ = save.step;
    pacer_.set_prediction(outcome.prediction);
  }
  save.job.reset();
  save.blobs.clear();
}

void Context::before_mutation() {
  if (copying_.load(std::memory_order_acquire)) copier_.wait();
}

Status Context::wait(double timeout_s, int64_t* durable_step) {
  const bool idle = timeout_s < 0 ? (commits_->wait(), true) : commits_->wait_for(std::min(timeout_s, 1e8));
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
  if (!commits_->busy()) ignore(finish_save_in_flight(), "told in the statistics");
  SaveStats now = stats_;
  if (in_flight_ && in_flight_->outcome) now.blocked_s = *in_flight_->blocked_s;
  if (sender_) now.objects = sender_->stats();
  return now;
}

}  // namespace dl::ckpt
