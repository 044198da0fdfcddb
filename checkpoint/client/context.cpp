// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/context.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>
#include <utility>

#include "checkpoint/client/send_patience.h"
#include "checkpoint/include/dlckpt_lease.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/verify.h"
#include "common/base/parse.h"
#include "common/contract/request_values.h"

namespace dl::ckpt {
namespace {

constexpr char kNoiseMetric[] = "noise_scale";  // the metric of dlckpt_batch.h
// A program without dlrun renews its lease only when it calls libdlckpt, and a train step may take long.
constexpr int64_t kOwnLeaseExpiry_s = 3600;
constexpr std::chrono::seconds kRenewEvery{DLCKPT_LEASE_EXPIRY_S / 4};

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Context::Context(Settings settings, Io& io)
    : settings_(std::move(settings)),
      io_(io),
      restorer_(io, settings_, registry_),
      last_renewal_(Clock::now()),
      pacer_({settings_.every_s, settings_.every_steps, settings_.every_auto},
             [] { return seconds(Clock::now().time_since_epoch()); }) {}

Context::~Context() {
  try {
    leave();
  } catch (const std::exception&) {  // out of memory; the next run tidies up
  }
}

std::string Context::leave() {
  // Without commits_, open() failed before it created the thread.
  if (!commits_ || std::exchange(left_, true)) return std::string();
  ignore(finish_save_in_flight(), "nobody is left to be told; dlckpt_wait comes before, where it matters");
  Committer& committer = commits_->when_idle();
  std::string unsent;
  if (sender_) {
    const std::string why = await_sending();
    unsent = sender_->unsent(why);
  }
  committer.leave();
  return unsent;
}

// Returns why the wait was ended before all was sent, or had failed; else "".
std::string Context::await_sending() {
  constexpr double kLook_s = 0.2;
  const auto now_s = [] { return seconds(Clock::now().time_since_epoch()); };
  SendPatience patience(now_s(), settings_.timeout_s);
  for (uint64_t moved = sender_->moved(); !sender_->wait_for(kLook_s);) {
    keep_lease();
    const uint64_t before = std::exchange(moved, sender_->moved());
    if (page_ && moved != before) page_->note_sending();
    const bool stop = pacer_.exit_step() >= 0 || (page_ && page_->stop_asked());
    std::string why = patience.over(now_s(), moved, stop);
    if (!why.empty()) return why;
  }
  return std::string();
}

Result<std::unique_ptr<Context>> Context::open(Settings settings, Io& io) {
  std::unique_ptr<Context> context(new Context(std::move(settings), io));
  const Settings& s = context->settings_;
  if (s.memory_bytes > 0) DL_TRY(check_memory_wish(s.memory_bytes));
  DL_TRY(context->make_directory());
  if (!s.lease_token.empty()) DL_TRY(context->open_here_.enter(s.dir, s.rank));
  Committer::Parts parts;
  if (s.rank == 0) {
    DL_TRY_ASSIGN(parts.lease_token, context->take_lease());
    DL_TRY(collect_garbage(io, s.dir, s.world_size > 1 ? run_folder(s.run_id) : std::string()));
  }
  if (!s.progress_page.empty()) {
    DL_TRY_ASSIGN(std::optional<ProgressLink> page, ProgressLink::attach(s.progress_page));
    if (page) context->page_ = std::make_shared<ProgressLink>(*std::move(page));
  }
  parts.page = context->page_;
  parts.group =
      s.world_size == 1 ? make_single_group() : make_file_group(io, s.dir, s.run_id, s.rank, s.world_size, s.timeout_s);
  if (!s.local_dir.empty()) {
    parts.levels =
        std::make_unique<Levels>(io, LevelSettings{s.dir, s.local_dir, s.node, s.partner, s.rank, s.timeout_s});
    DL_TRY(parts.levels->open());
  }
  if (s.rank == 0 && !s.objects.empty()) {
    parts.sender = std::make_unique<ObjectSender>(s.dir, s.objects, s.retention());
    DL_TRY(parts.sender->open());
    context->sender_ = parts.sender.get();
  }
  auto committer = std::make_unique<Committer>(s, io, std::move(parts));
  context->pacer_.set_prediction(committer->predict());
  if (s.world_size > 1 && !context->page_ && context->pacer_.by_time())
    context->pacer_.agree_through(make_file_group(io, s.dir, s.run_id + "\npace", s.rank, s.world_size, s.timeout_s));
  context->commits_.emplace(io, std::move(committer));
  return context;
}

Status Context::make_directory() {
  const int rc = io_.mkdir(settings_.dir);
  if (rc == 0) {
    // The parent is synced so that the directory itself survives a crash. Where this is not possible nothing is lost.
    const size_t slash = settings_.dir.rfind('/');
    io_.fsync_directory(slash == std::string::npos ? "." : slash == 0 ? "/" : settings_.dir.substr(0, slash));
    return {};
  }
  if (rc != -EEXIST) {
    Io::Info info;  // some file systems report "read-only" even if the directory exists
    if (io_.stat(settings_.dir, &info) == 0 && info.directory) return {};
    return io_error("make the checkpoint directory", settings_.dir, rc);
  }
  Io::Info info;
  const int stat_rc = io_.stat(settings_.dir, &info);
  if (stat_rc < 0) return io_error("stat", settings_.dir, stat_rc);
  if (!info.directory)
    return Error{Errc::kInvalid,
                 settings_.dir + " is not a directory; allowed: a directory, or a path where nothing is yet"};
  return {};
}

// Returns the token of the lease that protects the directory: dlrun's, or our own.
Result<std::string> Context::take_lease() {
  if (!settings_.lease_token.empty() && check_lease(io_, settings_.dir, settings_.lease_token))
    return settings_.lease_token;  // dlrun holds and renews the lease
  DL_TRY_ASSIGN(Lease lease, Lease::acquire(io_, settings_.dir, settings_.owner, settings_.job_id, kOwnLeaseExpiry_s));
  lease_.emplace(std::move(lease));
  return lease_->token();
}

void Context::keep_lease() {
  if (!lease_) return;
  const auto now = Clock::now();
  if (now - last_renewal_ < kRenewEvery) return;
  last_renewal_ = now;
  ignore(lease_->renew(), "a lease that was lost is noticed at the commit");
}

int Context::want(int64_t step) {
  keep_lease();
  pacer_.arrive(step);
  const bool saving = pacer_.measures() && commits_->busy();
  if (!saving) note_slowdown();
  const int answer = pacer_.decide(step, ask_dlrun(step));
  pacer_.depart(step, saving);
  return answer;
}

std::optional<ProgressPage::Request> Context::ask_dlrun(int64_t step) {
  if (!page_) return std::nullopt;
  if (page_->state() == ProgressPage::kNotAttached) page_->set_state(ProgressPage::kTraining);
  const ProgressPage::Request asked = page_->announce(step, settings_.timeout_s);
  if (asked == ProgressPage::kExitWithoutSave) page_->set_state(ProgressPage::kStopped);
  return asked;
}

// Now that the save is over, its slowdown of training has been measured, and is stored with the history.
void Context::note_slowdown() {
  if (!pacer_.measures() || !in_flight_ || in_flight_->slowdown_known) return;
  const Status outcome = finish_save_in_flight();
  in_flight_->slowdown_known = true;
  const auto slowdown_s = pacer_.take_slowdown();
  if (!slowdown_s || !outcome) return;
  Committer& committer = commits_->when_idle();
  committer.note_slowdown(in_flight_->step, *slowdown_s);
  pacer_.set_prediction(committer.predict());
}

Status Context::set_metric(const char* name, double value) {
  if (!name || !is_metric_name(name))
    return Error{Errc::kInvalid,
                 "the metric '" + printable(name ? name : "") +
                     "'; allowed: 1 to 64 letters, digits and . _ + - /, beginning with a letter or digit"};
  metrics_.erase(name);
  if (!std::isfinite(value))
    return Error{Errc::kInvalid, std::string("the metric '") + name +
                                     "' is not a finite number, so it is left out; allowed: finite numbers"};
  if (metrics_.size() >= kMaxMetrics)
    return Error{Errc::kInvalid, "the metric '" + std::string(name) + "' is one too many: allowed are " +
                                     std::to_string(kMaxMetrics) + " for a save"};
  metrics_[name] = value;
  if (page_ && std::strcmp(name, kNoiseMetric) == 0) page_->set_noise(value);
  return {};
}

int64_t Context::latest() {
  commits_->wait();
  auto names = scan_checkpoints(io_, settings_.dir);
  if (!names) return -1;
  for (const CheckpointName& name : *names)
    if (load_outline(io_, settings_.dir, name)) return name.step;
  return -1;
}

int Context::exit_code() {
  if (!commits_->busy()) ignore(finish_save_in_flight(), "dlckpt_wait tells");
  return pacer_.exit_step() >= 0 && good_step_ == pacer_.exit_step() ? 75 : 76;
}

void Context::finished() {
  if (page_) page_->set_state(ProgressPage::kFinished);
}

}  // namespace dl::ckpt
