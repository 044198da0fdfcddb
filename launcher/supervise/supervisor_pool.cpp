// SPDX-License-Identifier: Apache-2.0
// The servers of an elastic pool (--servers MIN:MAX): they are started and end while the learners train. What the end
// of one means is decided by ServerPlaces; who may leave, and which state moves, by the pool's directory.
#include <fmt/core.h>

#include "common/base/count.h"
#include "common/contract/exit_codes.h"
#include "launcher/supervise/learner_end.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;

using record::JobState;

namespace {

Failure ended_too_soon(int exit) {
  Failure failure;
  failure.kind = Failure::Kind::kNotStarted;
  failure.exit = kExitCannotStart;
  failure.text = fmt::format(
      "it ended with code {} and has not served; a server joins the pool and serves until it is told to leave "
      "(dlpool(3))",
      exit);
  return failure;
}

}  // namespace

// To be called often.
void Supervisor::look_at_pool() {
  if (!pool_->is_open() || !state_.running()) return;
  const int lost = pool_->facts().lost;
  if (const auto cause = pool_->lost_state().cause(lost, awake_ms())) {
    voice_.say(lost_text(lost));
    close_pool();
    // Learners would soon fail, too, since what they ask for is lost.
    learner_failed(cause->server < 0 ? attempt_.first_place() : cause->rank, *cause);
    return check_attempt_over();
  }
  // While the learners stop, none is needed: a SIGTERM of Slurm's may have made servers leave, of which the last stays.
  if (lost == 0 && state_.phase == Phase::kRunning) start_servers();
}

void Supervisor::start_servers() {
  if (!pool_->is_open()) return;
  for (int rank = attempt_.first_place(); rank < plan().world_size(); ++rank)
    if (attempt_.learner(rank).in_reserve && attempt_.learner(rank).said_hello && !attempt_.learner(rank).ended)
      pool_->places().free(rank - attempt_.first_place());
  const ServerPlaces::Pool now = pool_->now();
  for (const int place : pool_->places().start(now, awake_ms())) {
    const int rank = attempt_.first_place() + place;
    attempt_.call_up(rank);
    start_learner(rank);
    if (state_.all_started)
      voice_.say(fmt::format("the pool wants {}: server {} starts", count_text(now.wanted, "server"), place));
  }
}

// A server of the pool has ended. True: the run goes on as if nothing had happened.
bool Supervisor::server_goes_on(int rank, const Exited& exited) {
  if (!attempt_.is_place(rank) || !pool_->is_open() || !state_.running()) return false;
  LearnerEnd end = judge_exit(exited, {});
  const bool well = end.kind == LearnerEnd::Kind::kWell;
  if (well) end.failure = ended_too_soon(end.exit);
  const int place = rank - attempt_.first_place();
  ServerPlaces::End means = pool_->places().ended(place, well, pool_->now(), awake_ms());
  if (pool_->facts().lost > 0) means = ServerPlaces::End::kFailsRun;
  use_->ended(rank, awake_ms());
  journal_->learner_used(rank, use_->of_learner(rank));
  watch_.log_lost(rank, exited.log_lost);
  if (means == ServerPlaces::End::kFailsRun) {
    if (const int lost = pool_->facts().lost; lost > 0) voice_.say(lost_text(lost));
    attempt_.end(rank);
    if (!attempt_.agent_stays(plan(), journal_->memory().restarts) && !data_.holds(rank)) agents_->let_go(rank);
    learner_failed(rank, std::move(end.failure));
    check_attempt_over();
    return true;
  }
  const std::string host = attempt_.learner(rank).host;
  if (means == ServerPlaces::End::kLeft) {
    voice_.say(fmt::format("server {} has left the pool", place));
    journal_->learner(rank, JobState::kDeploy, host, "its server has left the pool");
  } else {
    end.failure.rank = rank;
    end.failure.host = plan().nodes.size() > 1 ? host : "";
    server_failed(rank, std::move(end.failure), means);
  }
  attempt_.to_reserve(rank);
  agents_->begin_anew(rank);
  return true;
}

// The agent of a place counts as lost (Attempt::lose_agent()). True: the run goes on without it.
bool Supervisor::goes_on_without_place(int rank, const Failure& why) {
  if (!attempt_.is_place(rank) || !pool_->is_open() || !state_.running()) return false;
  const int place = rank - attempt_.first_place();
  const ServerPlaces::Loss loss = pool_->places().lost(place, pool_->now(), awake_ms());
  if (const int left = pool_->places().left(); left < plan().pool->min)
    voice_.say(fmt::format("{} left for servers of the pool, which needs {}",
                           left == 1 ? "1 place is" : fmt::format("{} places are", left), plan().pool->min));
  if (loss.end == ServerPlaces::End::kFailsRun || (!loss.none && pool_->facts().lost > 0)) return false;
  Failure failure = why;
  failure.rank = rank;
  failure.host = attempt_.learner(rank).host;
  if (!loss.none) {
    server_failed(rank, failure, loss.end);
  } else {
    voice_.say(fmt::format("no server can run at place {} any more: {}", place, failure.text));
  }
  // Else Slurm would end the job as soon as it marks the node down.
  const std::string& node = nodes_.name_of(rank);
  const plan::PlannedNode& planned = plan().nodes[static_cast<size_t>(plan().learners[static_cast<size_t>(rank)].node)];
  if (nodes_.any_own_lost() && planned.learners == planned.servers) release_lost({node});
  return true;
}

void Supervisor::server_failed(int rank, Failure failure, ServerPlaces::End end) {
  failure.server = rank - attempt_.first_place();
  const std::string what = describe(failure);
  pool_->lost_state().failed(failure, awake_ms());
  std::string no_more;
  if (end == ServerPlaces::End::kTooOften)
    no_more = fmt::format(" with {}; no more are started for {} s, since {} have failed in a row",
                          count_text(pool_->places().running(), "server"),
                          (pool_->places().not_before_ms() - awake_ms() + 999) / 1000, ServerPlaces::kMostFailures);
  voice_.say(fmt::format("{}; the pool goes on{}", what, no_more));
  journal_->learner(rank, JobState::kDeploy, attempt_.learner(rank).host, what);
}

// Its servers end by themselves, and no more are started.
void Supervisor::close_pool() {
  pool_->close();
  const bool stay = attempt_.agent_stays(plan(), journal_->memory().restarts);
  for (const int rank : attempt_.end_reserve()) {
    journal_->learner(rank, JobState::kCompleted, attempt_.learner(rank).host);
    if (!stay && !data_.holds(rank) && agents_->has(rank)) agents_->tell(rank, Kill{0});
  }
}

// Agents of places that were kept for another attempt. Without a word they would take dlrun for dead, and end with a
// status of which srun tells the user.
void Supervisor::dismiss_reserve() {
  for (int rank = attempt_.first_place(); rank < static_cast<int>(attempt_.learners().size()); ++rank)
    if (!attempt_.learner(rank).started && agents_->has(rank)) agents_->tell(rank, Kill{0});
}

void Supervisor::perform(const KillLearners& kill) {
  close_pool();
  orders_->perform(kill);
}

}  // namespace dl::supervise
