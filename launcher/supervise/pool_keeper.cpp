// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/pool_keeper.h"

#include <fmt/core.h>

#include "common/base/awake_clock.h"
#include "common/base/count.h"
#include "common/contract/exit_codes.h"
#include "launcher/supervise/learner_end.h"

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

void PoolKeeper::look() {
  if (!serves()) return;
  const int lost = pool_->facts().lost;
  if (const auto cause = pool_->lost_state().cause(lost, awake_ms())) {
    with_.voice->say(lost_text(lost));
    close();
    // Learners would soon fail, too, since what they ask for is lost.
    calls_.fail(cause->server < 0 ? with_.attempt->first_place() : cause->rank, *cause);
    return calls_.look_whether_over();
  }
  // While the learners stop, none is needed: a SIGTERM of Slurm's may have made servers leave, of which the last stays.
  if (lost == 0 && with_.state->phase == Phase::kRunning) start_servers();
}

void PoolKeeper::start_servers() {
  if (!pool_->is_open()) return;
  const int first = with_.attempt->first_place();
  for (int rank = first; rank < plan().world_size(); ++rank) {
    const Learner& learner = with_.attempt->learner(rank);
    if (learner.in_reserve && learner.said_hello && !learner.ended) pool_->places().free(rank - first);
  }
  const ServerPlaces::Pool now = pool_->now();
  for (const int place : pool_->places().start(now, awake_ms())) {
    with_.attempt->call_up(first + place);
    calls_.start(first + place);
    if (with_.state->all_started)
      with_.voice->say(fmt::format("the pool wants {}: server {} starts", count_text(now.wanted, "server"), place));
  }
}

bool PoolKeeper::takes_end(int rank, const Exited& exited) {
  if (!with_.attempt->is_place(rank) || !serves()) return false;
  LearnerEnd end = judge_exit(exited, {});
  const bool well = end.kind == LearnerEnd::Kind::kWell;
  if (well) end.failure = ended_too_soon(end.exit);
  const int place = rank - with_.attempt->first_place();
  ServerPlaces::End means = pool_->places().ended(place, well, pool_->now(), awake_ms());
  const int lost = pool_->facts().lost;
  if (lost > 0) means = ServerPlaces::End::kFailsRun;
  if (means == ServerPlaces::End::kFailsRun) {
    if (lost > 0) with_.voice->say(lost_text(lost));
    with_.attempt->end(rank);
    let_go_unless_needed(rank);
    calls_.fail(rank, std::move(end.failure));
    calls_.look_whether_over();
    return true;
  }
  const std::string host = with_.attempt->learner(rank).host;
  if (means == ServerPlaces::End::kLeft) {
    with_.voice->say(fmt::format("server {} has left the pool", place));
    with_.journal->learner(rank, JobState::kDeploy, host, "its server has left the pool");
  } else {
    end.failure.rank = rank;
    end.failure.host = plan().nodes.size() > 1 ? host : "";
    server_failed(rank, std::move(end.failure), means);
  }
  with_.attempt->to_reserve(rank);
  with_.agents->begin_anew(rank);
  return true;
}

bool PoolKeeper::goes_on_without(int rank, const Failure& why) {
  if (!with_.attempt->is_place(rank) || !serves()) return false;
  const int place = rank - with_.attempt->first_place();
  const ServerPlaces::Loss loss = pool_->places().lost(place, pool_->now(), awake_ms());
  if (const int left = pool_->places().left(); left < plan().pool->min)
    with_.voice->say(fmt::format("{} left for servers of the pool, which needs {}",
                                 left == 1 ? "1 place is" : fmt::format("{} places are", left), plan().pool->min));
  if (loss.end == ServerPlaces::End::kFailsRun || (!loss.none && pool_->facts().lost > 0)) return false;
  Failure failure = why;
  failure.rank = rank;
  failure.host = with_.attempt->learner(rank).host;
  if (!loss.none) {
    server_failed(rank, failure, loss.end);
  } else {
    with_.voice->say(fmt::format("no server can run at place {} any more: {}", place, failure.text));
  }
  // Else Slurm would end the job as soon as it marks the node down.
  const plan::PlannedNode& node = plan().nodes[static_cast<size_t>(plan().learners[static_cast<size_t>(rank)].node)];
  if (with_.nodes->any_own_lost() && node.learners == node.servers) calls_.release({node.name});
  return true;
}

void PoolKeeper::server_failed(int rank, Failure failure, ServerPlaces::End end) {
  failure.server = rank - with_.attempt->first_place();
  const std::string what = describe(failure);
  pool_->lost_state().failed(failure, awake_ms());
  std::string no_more;
  if (end == ServerPlaces::End::kTooOften)
    no_more = fmt::format(" with {}; no more are started for {} s, since {} have failed in a row",
                          count_text(pool_->places().running(), "server"),
                          (pool_->places().not_before_ms() - awake_ms() + 999) / 1000, ServerPlaces::kMostFailures);
  with_.voice->say(fmt::format("{}; the pool goes on{}", what, no_more));
  with_.journal->learner(rank, JobState::kDeploy, with_.attempt->learner(rank).host, what);
}

// An agent that is needed no more ends when its connection is closed.
void PoolKeeper::let_go_unless_needed(int rank) {
  const bool stays = with_.attempt->agent_stays(plan(), with_.journal->memory().restarts);
  if (!stays && !with_.data->holds(rank)) with_.agents->let_go(rank);
}

void PoolKeeper::close() {
  pool_->close();
  const bool stay = with_.attempt->agent_stays(plan(), with_.journal->memory().restarts);
  for (const int rank : with_.attempt->end_reserve()) {
    with_.journal->learner(rank, JobState::kCompleted, with_.attempt->learner(rank).host);
    if (!stay && !with_.data->holds(rank) && with_.agents->has(rank)) with_.agents->tell(rank, Kill{0});
  }
}

void PoolKeeper::dismiss_reserve() {
  const int ranks = static_cast<int>(with_.attempt->learners().size());
  for (int rank = with_.attempt->first_place(); rank < ranks; ++rank)
    if (!with_.attempt->learner(rank).started && with_.agents->has(rank)) with_.agents->tell(rank, Kill{0});
}

}  // namespace dl::supervise
