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

// The state with the moves made.
ClusterState charged(const ClusterState& state, const std::vector<Move>& moves) {
  ClusterState next = state;
  for (const Move& move : moves) carry_out(move, &next.jobs[move.job]);
  return next;
}

// charge()'s moves, but for what guaranteed jobs of their tenant keep out of its quota. `next`: with the moves made.
std::vector<Move> beside_guaranteed(const ClusterState& state, const ClusterState& next, const std::vector<Move>& moves,
                                    const Displaced& displaced) {
  if (displaced.now.empty() && displaced.kept_out.empty()) return moves;
  const auto own_so_far = [&](int index) { return state.jobs[index].own_of(state.jobs[index].gpus()); };
  const auto own_next = [&](int index) { return next.jobs[index].own_of(next.jobs[index].gpus()); };
  std::map<int, int> own;  // by job
  for (const Move& move : moves) own[move.job] = own_next(move.job);
  // Where others leave the quota without a guaranteed job, what they make room for takes their place: else the tenant
  // might borrow more than it may.
  std::set<int> leave;
  for (const Move& move : moves)
    if (own_next(move.job) < own_so_far(move.job)) leave.insert(state.jobs[move.job].tenant);
  for (const auto& [job, gpus] : displaced.kept_out)
    if (leave.count(state.jobs[job].tenant) == 0)
      own[job] = std::min(own_next(job), std::max(own_so_far(job), own_next(job) - gpus));
  for (const auto& [job, gpus] : displaced.now) {
    const int stays = own_next(job) - gpus;
    const auto kept = own.find(job);
    own[job] = kept == own.end() ? stays : std::min(stays, kept->second);
  }
  std::vector<Move> all;
  for (const auto& [job, gpus] : own)
    if (const auto move = move_to(job, state.jobs[job], gpus)) all.push_back(*move);
  return all;
}

}  // namespace

Decision decide(const ClusterState& state, Tell tell) {
  std::vector<Move> moves = charge(state);
  ClusterState recharged;
  if (!moves.empty()) recharged = charged(state, moves);
  // Balance asks why jobs wait.
  Round round(moves.empty() ? state : recharged, state, state.balance ? Tell::kAll : tell);
  const Displaced displaced = serve_claims(&round);
  lend(&round);
  balance(&round);
  Decision decision = round.take();
  decision.moves = beside_guaranteed(state, moves.empty() ? state : recharged, moves, displaced);
  return decision;
}

}  // namespace dl::policy
