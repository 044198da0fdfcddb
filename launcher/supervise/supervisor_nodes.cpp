// SPDX-License-Identifier: Apache-2.0
// A lost node is answered within the allocation: the next attempt begins on the nodes that are left, as soon as nothing
// can run on the lost one any more, and the lost one is given back to Slurm.
#include <fmt/core.h>

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
  attempt_.lost_nodes.insert(plan_.nodes[static_cast<size_t>(plan_.learners[static_cast<size_t>(rank)].node)].name);
  raise_fence(fence_until_ms);
}

// No learner starts before. Remembered by the clock that another dlrun has too.
void Supervisor::raise_fence(int64_t until_ms) {
  if (until_ms <= fence_until_ms_) return;
  fence_until_ms_ = until_ms;
  remember([&](record::RunMemory* memory) { memory->fence_unix_ms = unix_ms() + until_ms - awake_ms(); });
}

// Whether the rest of the allocation holds the learners as well as all of it did: more learners on a node than Slurm
// gave it tasks for would be a slower job, and not what was asked for.
bool Supervisor::plan_without_lost() {
  without_lost_.reset();
  if (!options_.without || !plan_.under_slurm) return false;
  std::set<std::string> names = attempt_.lost_nodes;
  names.insert(bad_nodes_.begin(), bad_nodes_.end());
  auto made = options_.without({names.begin(), names.end()}, plan_);
  if (!made || (made->overcommit && !plan_.overcommit)) return false;
  without_lost_ = *std::move(made);
  return true;
}

void Supervisor::go_on_without_lost(const std::string& reason) {
  const std::vector<std::string> lost(attempt_.lost_nodes.begin(), attempt_.lost_nodes.end());
  std::set<std::string> all = attempt_.lost_nodes;
  all.insert(bad_nodes_.begin(), bad_nodes_.end());
  const std::vector<std::string> names(all.begin(), all.end());
  bad_nodes_.clear();
  remember([&](record::RunMemory* memory) {
    ++memory->moved;
    memory->left_out.insert(memory->left_out.end(), names.begin(), names.end());
  });
  plan_ = *std::move(without_lost_);
  without_lost_.reset();
  const std::string text = plan::describe_without(names, plan_);
  say(reason + "; " + text);
  start_attempt(fmt::format("restart elsewhere: {}; {}", reason, text));
  forget_old_step();
  if (!lost.empty()) release_lost(lost);
}

// Before the next attempt, where the failure may be a node's.
void Supervisor::perform(const CheckNodes& /*check*/) {
  const plan::LaunchPlan& next = decision_.without_lost ? *without_lost_ : plan_;
  std::set<std::string> suspects;
  for (const Failure& failure : attempt_.failures) {
    if (failure.asked || failure.rank < 0) continue;
    const std::string& host = attempt_.learners[static_cast<size_t>(failure.rank)].host;
    const bool stays = std::any_of(next.nodes.begin(), next.nodes.end(),
                                   [&](const plan::PlannedNode& node) { return node.name == host; });
    if (stays) suspects.insert(host);
  }
  auto found = std::make_shared<CheckedNodes>();
  checker_->post([found, check = options_.check, next,
                  names = std::vector<std::string>(suspects.begin(), suspects.end())] { *found = check(next, names); },
                 [this, found] { nodes_checked(*found); });
}

void Supervisor::nodes_checked(const CheckedNodes& found) {
  for (const std::string& line : found.lines) say("preflight: " + line);
  if (!found.bad.empty()) {
    bad_nodes_.insert(found.bad.begin(), found.bad.end());
    RestartLimits limits;
    limits.can_requeue = slurm_->can_requeue();
    limits.measurable = plan_.checkpoint.has_value() || attempt_.newest_saved_step() >= 0;
    decision_ = decide_without_bad(std::move(decision_), found.bad, plan_without_lost(), limits);
    // The agents that wait belong to the plan with these nodes.
    attempt_.agent_lost = true;
    remember([&](record::RunMemory* memory) {
      for (const std::string& name : found.bad) memory->excluded += (memory->excluded.empty() ? "" : ",") + name;
    });
  }
  handle(decided_of_decision());
}

// srun waits for ever for tasks of a lost node, and for an agent that stands still; those of the others have ended.
void Supervisor::forget_old_step() {
  poll(500, [this, since = awake_ms()] {
    if (awake_ms() - since < kLastWordsMs && !state_.finished()) return false;
    launcher_.kill_older(SIGKILL);
    return true;
  });
}

// Else Slurm would end the job with the node as soon as it gives the node up (SlurmdTimeout). It also learns sooner
// that the node does not answer: it tries to end what runs there.
void Supervisor::release_lost(const std::vector<std::string>& names) {
  slurm_->release_nodes(
      names, dir_.root(), [this] { journal_->end_comments(); },
      [](const Status& outcome) {
        if (outcome) return;
        std::fprintf(stderr,
                     "dlrun: warning: the lost node stays in the allocation, and Slurm may end the "
                     "job with it: %s\n",
                     outcome.error().text.c_str());
      });
}

}  // namespace dl::supervise
