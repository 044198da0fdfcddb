// SPDX-License-Identifier: Apache-2.0
// Looks from time to time for agents that have not connected or have become silent, for learners that are slower than
// the others, and for GPUs that are not used.
#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "common/base/parse.h"
#include "common/contract/exit_codes.h"
#include "launcher/slurm_cli/refused_step.h"
#include "launcher/supervise/scaling_watch.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

// The time within which all agents have to connect (agent_timeout) is over.
void Supervisor::agents_missing() {
  Failure failure;
  failure.kind = Failure::Kind::kNoAgent;
  failure.text = fmt::format("its agent has not connected within {}", format_duration(site_.agent_timeout));
  give_up_learners(failure, /*only_silent=*/true);
}

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

// A node's kernel keeps a connection alive even while the agent is stopped, frozen or starved, and such an agent
// reports neither its learner's end nor a hang. So the agent's own messages are waited for as well; it pings each half
// second. A suspended job is spared, because its nodes go on one after the other.
void Supervisor::look_for_silent_agents(int64_t now_ms) {
  if (!learners_under_way()) return;
  const std::vector<int> silent = agents_->silent(now_ms, silence_limit_ms(), attempt_.learners());
  if (silent.empty()) return;
  if (!plan().under_slurm) return agents_silent();
  agents_->silence_is_asked_about();
  slurm_->ask([this, attempt = attempts_](const SlurmJob::Answer& job) {
    const bool of_this = attempt == attempts_ && learners_under_way();
    agents_->silence_is_known(of_this && job && job->state == "SUSPENDED", awake_ms());
    if (of_this) agents_silent();
  });
}

void Supervisor::agents_silent() {
  for (const int rank : agents_->silent(awake_ms(), silence_limit_ms(), attempt_.learners())) {
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

// Stragglers are reported, but nothing is done about them: the cause may be a shared node or a full disk, and a restart
// costs everybody's time.
void Supervisor::look_for_stragglers() {
  std::vector<std::optional<double>> times;
  times.reserve(attempt_.learners().size());
  for (const Learner& learner : attempt_.learners())
    times.push_back(learner.ended ? std::nullopt : learner.times.median_ms());
  for (const Straggler& straggler : attempt_.slow.look(find_stragglers(times))) {
    const Learner& learner = attempt_.learner(straggler.rank);
    const std::string note = describe(straggler);
    journal_->learner(straggler.rank, learner.state, learner.host, note);
    voice_.say(fmt::format("warning: learner {} on {} is {}", straggler.rank, learner.host, note));
  }
}

// How often agents measure the use of their GPUs: often enough not to miss a short use within the time after which a
// GPU counts as idle.
int64_t Supervisor::gpu_look_ms() const {
  constexpr int64_t kOften = 1000, kSeldom = 5000, kLooks = 20;
  return site_.idle.after.count() == 0 ? 0 : std::clamp(site_.idle.after.count() * 1000 / kLooks, kOften, kSeldom);
}

// Tells the user of idle GPUs, and dlpolicyd by the job's comment. Whether another job may have them is dlpolicyd's
// decision.
void Supervisor::look_for_idle_gpus() {
  const int64_t now = awake_ms();
  const IdleGpus::News news = attempt_.idle.look(now);
  if (news.idle.empty() && news.used_again.empty() && news.unknown.empty()) return;
  const int each = plan().gpus_per_learner;
  std::string text;
  if (!news.unknown.empty()) text = unknown_text(news.unknown, each);
  if (!news.used_again.empty()) text = used_again_text(news.used_again, each);
  if (!news.idle.empty()) {
    text = unused_text(news.idle, each, attempt_.idle.unused_ms(news.idle, now));
    voice_.say("warning: " + text);
  }
  const std::vector<int> idle = attempt_.idle.idle();
  journal_->idle_gpus({static_cast<int>(idle.size()) * each, (unix_ms() - attempt_.idle.unused_ms(idle, now)) / 1000},
                      text);
}

void Supervisor::look_at_scaling(bool last) {
  if (plan().servers > 0) return;  // learners beside parameter servers scale by another formula
  scaling_->look(dir_, scaling_record_of(plan()), attempt_.learners(), awake_ms(), attempt_.started_ms(), last);
  if (!scaling_->hint().empty()) journal_->scale(scaling_->hint());
}

std::string Supervisor::note_of(size_t rank) const {
  const int number = static_cast<int>(rank);
  std::string note = attempt_.slow.note(rank);
  if (attempt_.idle.is_idle(number))
    note += (note.empty() ? "" : "; ") +
            unused_text({number}, plan().gpus_per_learner, attempt_.idle.unused_ms({number}, awake_ms()));
  const std::string lost = log_losses_.note(attempts_, number);
  if (!lost.empty()) note += (note.empty() ? "" : "; ") + lost;
  return note;
}

}  // namespace dl::supervise
