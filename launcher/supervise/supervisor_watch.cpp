// SPDX-License-Identifier: Apache-2.0
// What follows when the program that starts agents has ended, or when agents are silent; and what the train steps of an
// attempt say about how its job scales.
#include <fmt/core.h>
#include <sys/wait.h>

#include "common/base/parse.h"
#include "launcher/slurm_cli/refused_step.h"
#include "launcher/supervise/scaling_watch.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

void Supervisor::launcher_gone(int64_t now_ms, bool all_hello) {
  if (starts_again(now_ms)) return;
  Failure failure;
  failure.kind = all_hello ? Failure::Kind::kAgentLost : Failure::Kind::kNotStarted;
  failure.text = launcher_name(plan()) +
                 (all_hello ? " ended while learners were running" : " ended before it had started the learners");
  attempt_.lose_agents();
  give_up_learners(failure, /*only_silent=*/false);
}

// Whether srun will be started again, because Slurm refused to start the agents. It does so for a moment after a
// reconfigure.
bool Supervisor::starts_again(int64_t now_ms) {
  if (attempt_.any_said_hello() || state_.phase != Phase::kStarting || plan().method != plan::LaunchMethod::kSrun)
    return false;
  const int status = agents_->launcher_status();
  if (!WIFEXITED(status) || !slurm_cli::may_be_refused(WEXITSTATUS(status))) return false;
  if (!attempt_.waits_to_start_again()) {
    const int refused = attempt_.refused();
    const auto pause = slurm_cli::pause_after_refusal(refused);
    if (!pause) return false;
    attempt_.start_again_at(now_ms + 1000 * pause->count());
    voice_.say(fmt::format("{} could not start the agents (see its error above); trying again in {} (try {} of {})",
                           launcher_name(plan()), format_duration(*pause), refused, slurm_cli::max_tries_again()));
  }
  if (attempt_.may_start_again(now_ms)) start_cold();
  return true;
}

void Supervisor::agents_silent(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    const Learner& learner = attempt_.learner(rank);
    if (learner.ended) continue;
    attempt_.silence_agent(rank);
    agents_->let_go(rank);
    Failure failure;
    failure.kind = Failure::Kind::kAgentLost;
    failure.asked = state_.ending();
    failure.text = fmt::format("its agent (dl-agent) on {} has said nothing for {}, though its node answers",
                               learner.host, format_duration(site_.agent_timeout));
    learner_failed(rank, failure);
  }
  check_attempt_over();
}

void Supervisor::look_at_scaling(bool last) {
  if (plan().servers > 0) return;  // learners beside parameter servers scale by another formula
  scaling_->look(dir_, scaling_record_of(plan()), attempt_.learners(), awake_ms(), attempt_.started_ms(), last);
  if (!scaling_->hint().empty()) journal_->scale(scaling_->hint());
}

}  // namespace dl::supervise
