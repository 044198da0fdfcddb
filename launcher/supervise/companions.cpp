// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/companions.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <memory>
#include <utility>

#include "common/base/parse.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::supervise {
namespace {

constexpr int64_t kLookWaitingMs = 500, kLookMs = 2000;
constexpr int64_t kLongestPauseMs = 60'000;

// Of a job that Slurm has not ended: one that is COMPLETING needs no further word.
constexpr const char* kGoesOn[] = {"PENDING", "CONFIGURING", "RUNNING",  "SUSPENDED",
                                   "STOPPED", "RESIZING",    "SIGNALING"};

bool goes_on(const std::string& state) {
  return std::any_of(std::begin(kGoesOn), std::end(kGoesOn), [&](const char* one) { return state == one; });
}

Result<slurm_cli::JobText> job_text(const std::string& id) {
  DL_TRY_ASSIGN(const std::string shown, slurm_cli::answer_of({"scontrol", "show", "job", "-d", id}));
  return slurm_cli::parse_job_text(shown, id);
}

Result<std::string> submit_companion(const std::string& job_id, const std::string& name, const plan::LaunchPlan& plan,
                                     int nodes, const std::optional<OfferedNodes>& offered) {
  DL_TRY_ASSIGN(const slurm_cli::JobText job, job_text(job_id));
  return slurm_cli::submit(companion_options(job, plan, nodes, name, std::time(nullptr), offered),
                           companion_script(job));
}

// Ends the job. Whether Slurm has ended it: what scancel says does not count, since the job may have ended before.
bool is_given_back(const std::string& id) {
  ignore(slurm_cli::cancel({id}), "the next line sees whether it has worked");
  const auto job = job_text(id);
  return job ? !goes_on(slurm_cli::job_info_of(*job).state) : job.error().code == Errc::kNotFound;
}

// The ids of the caller's jobs with this name that go on.
Result<std::vector<std::string>> jobs_of_name(const std::string& name) {
  DL_TRY_ASSIGN(const std::string shown,
                slurm_cli::answer_of({"squeue", "--noheader", "--all", "--me", "--name=" + name, "-o", "%i %T"}));
  std::vector<std::string> jobs;
  for (const std::string& line : split(shown, '\n')) {
    const size_t blank = line.find(' ');
    if (blank != std::string::npos && goes_on(line.substr(blank + 1))) jobs.push_back(line.substr(0, blank));
  }
  return jobs;
}

void erase(const std::string& job, std::vector<std::string>* jobs) {
  jobs->erase(std::remove(jobs->begin(), jobs->end(), job), jobs->end());
}

}  // namespace

void Companions::submit(const plan::LaunchPlan& plan, int nodes, const std::optional<OfferedNodes>& offered,
                        std::function<void(const Result<std::string>&)> then) {
  submitting_ = true;
  auto id = std::make_shared<Result<std::string>>(Error{});
  calls_.post([id, job = job_id_, name = name_, plan, nodes,
               offered] { *id = submit_companion(job, name, plan, nodes, offered); },
              [this, id, is_offer = offered.has_value(), then = std::move(then)] {
                submitting_ = false;
                if (*id && is_offer) offered_[**id] = 0;
                if (!*id) give_back_strays(kStrayMs);
                if (*id) held_.push_back(**id);
                if (*id) waiting_.push_back(**id);
                if (*id && over_) return give_back_all();
                then(*id);
              });
}

bool Companions::Again::is_due(int64_t now_ms) {
  if (due_ms_ == 0) {
    due_ms_ = now_ms + pause_ms_;
    pause_ms_ = std::min(2 * pause_ms_, kLongestPauseMs);
  }
  if (now_ms < due_ms_) return false;
  due_ms_ = 0;
  return true;
}

void Companions::look(int64_t now_ms) {
  for (auto& [job, going] : going_)
    if (!going.asked && going.again.is_due(now_ms)) cancel(job);
  look_for_strays(now_ms);
  look_at_held(now_ms);
}

void Companions::look_at_held(int64_t now_ms) {
  if (held_.empty() || looks_ > 0 || now_ms - looked_ms_ < (waiting_.empty() ? kLookMs : kLookWaitingMs)) return;
  looked_ms_ = now_ms;
  for (auto& [job, until_ms] : offered_)
    if (until_ms == 0) until_ms = now_ms + kWaitMs;
  for (const std::string& job : held_) {
    auto found = std::make_shared<Result<slurm_cli::JobText>>(Error{});
    ++looks_;
    calls_.post([found, job] { *found = job_text(job); },
                [this, found, job, now_ms] {
                  --looks_;
                  if (std::find(held_.begin(), held_.end(), job) == held_.end()) return;
                  CompanionState state;
                  if (*found) {
                    state = companion_state(**found);
                  } else if (found->error().code == Errc::kNotFound) {
                    state.kind = CompanionState::Kind::kOver;
                    state.why = "Slurm does not know it any more";
                  }
                  const auto offer = offered_.find(job);
                  if (*found && state.kind == CompanionState::Kind::kWaits && offer != offered_.end() &&
                      now_ms >= offer->second) {
                    state.kind = CompanionState::Kind::kOver;
                    state.why = "the nodes that it was to have are not free any more";
                  }
                  if (state.kind == CompanionState::Kind::kWaits) return;
                  offered_.erase(job);
                  erase(job, &waiting_);
                  heard_(job, state);
                });
  }
}

void Companions::give_back(const std::string& job) {
  offered_.erase(job);
  erase(job, &held_);
  erase(job, &waiting_);
  if (going_.emplace(job, Going{}).second) cancel(job);
}

void Companions::cancel(const std::string& job) {
  going_[job].asked = true;
  auto gone = std::make_shared<bool>(false);
  calls_.post([job, gone] { *gone = is_given_back(job); },
              [this, job, gone] {
                going_[job].asked = false;
                if (*gone) going_.erase(job);
              });
}

void Companions::give_back_all() {
  over_ = true;
  for (const std::string& job : std::vector<std::string>(held_)) give_back(job);
}

void Companions::give_back_strays(int64_t for_ms) {
  const bool asked = strays_ && strays_->asked;
  const int64_t longest_ms = strays_ ? std::max(strays_->for_ms, for_ms) : for_ms;
  strays_ = Strays{};
  strays_->for_ms = longest_ms;
  strays_->asked = asked;
}

void Companions::look_for_strays(int64_t now_ms) {
  if (!strays_) return;
  if (strays_->until_ms == 0) strays_->until_ms = now_ms + strays_->for_ms;
  if (strays_->asked || !strays_->again.is_due(now_ms)) return;
  strays_->asked = true;
  auto found = std::make_shared<Result<std::vector<std::string>>>(Error{});
  calls_.post([found, name = name_] { *found = jobs_of_name(name); },
              [this, found, now_ms] {
                strays_->asked = false;
                if (!*found) return;
                // What was submitted before this answer is held by now, since calls are made one after another.
                for (const std::string& job : **found)
                  if (std::find(held_.begin(), held_.end(), job) == held_.end()) give_back(job);
                if (strays_->until_ms != 0 && now_ms >= strays_->until_ms) strays_.reset();
              });
}

}  // namespace dl::supervise
