// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/decide.h"

#include <algorithm>
#include <map>
#include <set>

#include "slurm-plugin/policy/balance.h"
#include "slurm-plugin/policy/claims.h"
#include "slurm-plugin/policy/lend.h"
#include "slurm-plugin/policy/round.h"

namespace dl::policy {
namespace {

// charge()'s moves, but for what guaranteed jobs of their tenant keep out of its quota. `next`: with the moves made.
std::vector<Move> beside_guaranteed(const ChargedBefore& so_far, const ClusterState& next,
                                    const std::vector<Move>& moves, const Displaced& displaced) {
  if (displaced.now.empty() && displaced.kept_out.empty()) return moves;
  const auto own_so_far = [&](int index) { return so_far.own_of(index, next.jobs[index].gpus()); };
  const auto own_next = [&](int index) { return next.jobs[index].own_of(next.jobs[index].gpus()); };
  std::map<int, int> own;  // by job
  for (const Move& move : moves) own[move.job] = own_next(move.job);
  // Where others leave the quota without a guaranteed job, what they make room for takes their place: else the tenant
  // might borrow more than it may.
  std::set<int> leave;
  for (const Move& move : moves)
    if (own_next(move.job) < own_so_far(move.job)) leave.insert(next.jobs[move.job].tenant);
  for (const auto& [job, gpus] : displaced.kept_out)
    if (leave.count(next.jobs[job].tenant) == 0)
      own[job] = std::min(own_next(job), std::max(own_so_far(job), own_next(job) - gpus));
  for (const auto& [job, gpus] : displaced.now) {
    const int stays = own_next(job) - gpus;
    const auto kept = own.find(job);
    own[job] = kept == own.end() ? stays : std::min(stays, kept->second);
  }
  std::vector<Move> all;
  for (const auto& [job, gpus] : own)
    if (const auto move = move_to(so_far.of(job), next.jobs[job].gpus(), gpus)) all.push_back(*move);
  return all;
}

// `state`: with the moves made.
Decision decide_charged(const ClusterState& state, const ChargedBefore& so_far, const std::vector<Move>& moves,
                        Tell tell) {
  // Balance asks why jobs wait.
  Round round(state, so_far, state.balance ? Tell::kAll : tell);
  const Displaced displaced = serve_claims(&round);
  balance(&round, lend(&round));
  Decision decision = round.take();
  decision.moves = beside_guaranteed(so_far, state, moves, displaced);
  return decision;
}

// The state is charged anew meanwhile.
Decision decide_with(const std::vector<Move>& moves, ClusterState* state, Tell tell) {
  const ChargedBefore so_far(*state, moves);
  for (const Move& move : moves) carry_out(move, &state->jobs[move.job]);
  Decision decision = decide_charged(*state, so_far, moves, tell);
  for (const Move& was : so_far.moved()) carry_out(was, &state->jobs[was.job]);
  return decision;
}

}  // namespace

Decision decide(const ClusterState& state, Tell tell) {
  const std::vector<Move> moves = charge(state);
  if (moves.empty()) return decide_charged(state, ChargedBefore(state, moves), moves, tell);
  ClusterState recharged = state;
  return decide_with(moves, &recharged, tell);
}

Decision decide(ClusterState* state, Tell tell) {
  return decide_with(charge(*state), state, tell);
}

}  // namespace dl::policy
