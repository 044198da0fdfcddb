// SPDX-License-Identifier: Apache-2.0
// A lost node is answered within the allocation: the next attempt begins on the nodes that are left, as soon as nothing
// can run on the lost one any more, and the lost one is given back to Slurm.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

constexpr int64_t kLastWordsMs = 2000;  // for the old srun to hand on what survivors have written

}  // namespace

void Supervisor::node_lost(int rank, int64_t fence_until_ms) {
  lost_nodes_.insert(plan_.nodes[static_cast<size_t>(plan_.learners[static_cast<size_t>(rank)].node)].name);
  fence_until_ms_ = std::max(fence_until_ms_, fence_until_ms);
}

// Whether the rest of the allocation holds the learners as well as all of it did: more learners on a node than Slurm
// gave it tasks for would be a slower job, and not what was asked for.
bool Supervisor::plan_without_lost() {
  without_lost_.reset();
  if (!options_.without || !plan_.under_slurm) return false;
  std::set<std::string> names = lost_nodes_;
  names.insert(bad_nodes_.begin(), bad_nodes_.end());
  auto made = options_.without({names.begin(), names.end()}, plan_);
  if (!made || (made->plan.overcommit && !plan_.overcommit)) return false;
  without_lost_ = *std::move(made);
  return true;
}

void Supervisor::go_on_without_lost(const std::string& reason) {
  const std::vector<std::string> lost(lost_nodes_.begin(), lost_nodes_.end());
  std::set<std::string> all = lost_nodes_;
  all.insert(bad_nodes_.begin(), bad_nodes_.end());
  const std::vector<std::string> names(all.begin(), all.end());
  bad_nodes_.clear();
  ++moved_;
  plan_ = std::move(without_lost_->plan);
  options_.plan_json = std::move(without_lost_->json);
  without_lost_.reset();
  const std::string text = plan::describe_without(names, plan_);
  say(reason + "; " + text);
  start_attempt(fmt::format("restart elsewhere: {}; {}", reason, text));
  forget_old_step();
  if (!lost.empty()) release_lost(lost);
}

// Before the next attempt, where the failure may be a node's. False: there is nothing to check, or it has been done.
bool Supervisor::check_nodes_first(const EndDecision& decision, const FailureClass& its) {
  if (checked_ || !options_.check || !plan_.under_slurm || !blames_nodes(its)) {
    checked_ = false;
    return false;
  }
  const plan::LaunchPlan& next = decision.without_lost ? without_lost_->plan : plan_;
  std::set<std::string> suspects;
  for (const Failure& failure : failures_) {
    if (failure.asked || failure.rank < 0) continue;
    const std::string& host = learners_[static_cast<size_t>(failure.rank)].host;
    const bool stays = std::any_of(next.nodes.begin(), next.nodes.end(),
                                   [&](const plan::PlannedNode& node) { return node.name == host; });
    if (stays) suspects.insert(host);
  }
  checking_ = true;
  auto found = std::make_shared<CheckedNodes>();
  checker_->post([found, check = options_.check, next,
                  names = std::vector<std::string>(suspects.begin(), suspects.end())] { *found = check(next, names); },
                 [this, found, decision] { nodes_checked(decision, *found); });
  return true;
}

void Supervisor::nodes_checked(EndDecision decision, const CheckedNodes& found) {
  checking_ = false;
  checked_ = true;
  for (const std::string& line : found.lines) say("preflight: " + line);
  if (!found.bad.empty()) {
    bad_nodes_.insert(found.bad.begin(), found.bad.end());
    RestartLimits limits;
    limits.can_requeue = can_requeue();
    limits.measurable = plan_.checkpoint.has_value() || newest_saved_step() >= 0;
    decision = decide_without_bad(std::move(decision), found.bad, plan_without_lost(), limits);
    // The agents that wait belong to the plan with these nodes.
    agent_lost_ = true;
    checked_ = decision.action == EndDecision::Action::kRestart;
    for (const std::string& name : found.bad) excluded_ += (excluded_.empty() ? "" : ",") + name;
  }
  carry_out(decision);
  if (const auto stop = std::exchange(stop_later_, nullptr)) stop();
}

// srun waits for ever for tasks of a lost node, and for an agent that stands still; those of the others have ended.
void Supervisor::forget_old_step() {
  poll(500, [this, since = monotonic_ms()] {
    if (monotonic_ms() - since < kLastWordsMs && !finished_) return false;
    launcher_.kill_older(SIGKILL);
    return true;
  });
}

// Else Slurm would end the job with the node as soon as it gives the node up (SlurmdTimeout). It also learns sooner
// that the node does not answer: it tries to end what runs there.
void Supervisor::release_lost(const std::vector<std::string>& names) {
  auto can_update = std::make_shared<bool>(true);
  auto outcome = std::make_shared<Status>();
  auto told = [outcome] {
    if (*outcome) return;
    std::fprintf(stderr,
                 "dlrun: warning: the lost node stays in the allocation, and Slurm may end the job with it: %s\n",
                 outcome->error().text.c_str());
  };
  worker_->post([can_update] { *can_update = slurm_cli::can_update_after_release(); },
                [this, can_update, outcome, names, told] {
                  // Those that wait are sent before the release, those to come would each hold up the worker for long.
                  if (!*can_update) journal_->end_comments();
                  worker_->post([outcome, names, job = plan_.job_id,
                                 folder = dir_.root()] { *outcome = slurm_cli::release_nodes(job, names, folder); },
                                told);
                });
}

}  // namespace dl::supervise
