// SPDX-License-Identifier: Apache-2.0
// Goes on without a lost node in the same allocation: the next attempt begins on the remaining nodes, as soon as
// nothing can run on the lost one any more, and the lost node is given back to Slurm. Or without the store that dlrun
// hosts, where PyTorch cannot use it.
#include <fmt/core.h>

#include <csignal>
#include <cstdio>

#include "launcher/supervise/repeat.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

constexpr int64_t kLastWordsMs = 2000;  // for the old srun to pass on the last output of the other nodes

}  // namespace

void Supervisor::go_on_without_lost(const std::string& reason) {
  const NodePool::Left left = nodes_.go_on_without();
  for (const std::string& job : left.companions) companions_->give_back(job);
  attempt_.dismiss_agents();  // they were started for a plan with the other nodes
  if (options_.settle) options_.settle(plan());
  journal_->change_memory([&](record::RunMemory* memory) {
    ++memory->moved;
    memory->lost.clear();
    memory->left_out.insert(memory->left_out.end(), left.out.begin(), left.out.end());
  });
  const std::string text = plan::describe_without(left.out, plan());
  voice_.say(reason + "; " + text);
  start_attempt(fmt::format("restart elsewhere: {}; {}", reason, text));
  forget_old_step();
  if (!left.lost.empty()) release_lost(left.lost);
}

// Checks, before the next attempt, the nodes that may have caused the failure.
void Supervisor::perform(const CheckNodes& /*check*/) {
  auto found = std::make_shared<CheckedNodes>();
  checker_->post([found, check = options_.check, next = nodes_.next(judge_->decision().without_lost),
                  names = nodes_.suspects(attempt_, judge_->decision().without_lost)] { *found = check(next, names); },
                 [this, found] { nodes_checked(*found); });
}

void Supervisor::nodes_checked(const CheckedNodes& found) {
  for (const std::string& line : found.lines) voice_.say("preflight: " + line);
  const Decided decided = judge_->nodes_checked(found.bad);
  if (!found.bad.empty()) {
    // Agents that wait for the next attempt were started for a plan with the bad nodes, so none of them may be reused.
    attempt_.dismiss_agents();
    journal_->change_memory([&](record::RunMemory* memory) {
      for (const std::string& name : found.bad) memory->excluded += (memory->excluded.empty() ? "" : ",") + name;
    });
  }
  handle(decided);
}

// srun waits for ever for the tasks of a lost node and for a stopped agent, so it is killed. Tasks of the other nodes
// have ended by then.
void Supervisor::forget_old_step() {
  repeat(&loop_, 500, [this, since = awake_ms()] {
    if (awake_ms() - since < kLastWordsMs && !state_.finished()) return false;
    agents_->kill_older(SIGKILL);
    return true;
  });
}

// If the lost node stayed in the job, Slurm would end the job as soon as it marks the node down (SlurmdTimeout). Slurm
// also notices sooner that the node does not answer, because it tries to end what runs there.
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

// Some builds of PyTorch have no libuv (end_judge.cpp).
void Supervisor::start_without_store() {
  nodes_.use_store_without_libuv();
  journal_->change_memory([this](record::RunMemory* memory) { memory->store_host = nodes_.store_host(); });
  const std::string why = "this PyTorch has no libuv: learner 0 hosts the store";
  voice_.say(why + " (with USE_LIBUV=0 in the job's environment this second start is not needed)");
  start_attempt(why);
}

}  // namespace dl::supervise
