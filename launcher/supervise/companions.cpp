// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/companions.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::supervise {
namespace {

constexpr int64_t kLookWaitingMs = 500, kLookMs = 2000;

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

void erase(const std::string& job, std::vector<std::string>* jobs) {
  jobs->erase(std::remove(jobs->begin(), jobs->end(), job), jobs->end());
}

}  // namespace

void Companions::submit(const plan::LaunchPlan& plan, int nodes, std::function<void(const Result<std::string>&)> then,
                        const std::optional<OfferedNodes>& offered) {
  submitting_ = true;
  auto id = std::make_shared<Result<std::string>>(Error{});
  calls_.post([id, job = job_id_, name = name_, plan, nodes,
               offered] { *id = submit_companion(job, name, plan, nodes, offered); },
              [this, id, is_offer = offered.has_value(), then = std::move(then)] {
                submitting_ = false;
                if (*id && is_offer) offered_[**id] = 0;
                if (*id) held_.push_back(**id);
                if (*id) waiting_.push_back(**id);
                if (*id && over_) return give_back_all();
                then(*id);
              });
}

void Companions::look(int64_t now_ms) {
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
  calls_.post([job] { ignore(slurm_cli::cancel({job}), "it ends by itself after the job, if it has not yet"); }, {});
}

void Companions::give_back_all() {
  over_ = true;
  for (const std::string& job : std::vector<std::string>(held_)) give_back(job);
}

void Companions::give_back_inherited() {
  calls_.post(
      [name = name_] {
        ignore(slurm_cli::cancel({"--user=" + std::to_string(::geteuid()), "--name=" + name}),
               "they end after the job");
      },
      {});
}

}  // namespace dl::supervise
