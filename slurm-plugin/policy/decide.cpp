// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/decide.h"

#include <algorithm>
#include <set>

#include "slurm-plugin/policy/claims.h"
#include "slurm-plugin/policy/lend.h"
#include "slurm-plugin/policy/round.h"

namespace dl::policy {
namespace {

// The state with the moves made.
ClusterState charged(const ClusterState& state, const std::vector<Move>& moves) {
  ClusterState next = state;
  for (const Move& move : moves) next.jobs[move.job].charge = move.to;
  return next;
}

// charge()'s moves, but for the jobs that guaranteed ones of their tenant keep out of its quota.
std::vector<Move> beside_guaranteed(const ClusterState& state, std::vector<Move> moves, const Displaced& displaced) {
  const auto drop = [&](const std::vector<int>& jobs) {
    const auto among = [&](const Move& move) { return std::find(jobs.begin(), jobs.end(), move.job) != jobs.end(); };
    if (!jobs.empty()) moves.erase(std::remove_if(moves.begin(), moves.end(), among), moves.end());
  };
  // Where others leave the quota without a guaranteed job, what they make room for takes their place: else the tenant
  // might borrow more than it may.
  std::set<int> leave;
  for (const Move& move : moves)
    if (move.to == Charge::kBorrowed) leave.insert(state.jobs[move.job].tenant);
  std::vector<int> kept_out = displaced.kept_out;
  kept_out.erase(std::remove_if(kept_out.begin(), kept_out.end(),
                                [&](int job) { return leave.count(state.jobs[job].tenant) != 0; }),
                 kept_out.end());
  drop(kept_out);
  drop(displaced.now);
  for (const int job : displaced.now)
    if (state.jobs[job].charge == Charge::kOwn) moves.push_back(Move{job, Charge::kBorrowed});
  std::sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.job < b.job; });
  return moves;
}

}  // namespace

Decision decide(const ClusterState& state) {
  std::vector<Move> moves = charge(state);
  ClusterState recharged;
  if (!moves.empty()) recharged = charged(state, moves);
  Round round(moves.empty() ? state : recharged, state);
  const Displaced displaced = serve_claims(&round);
  lend(&round);
  Decision decision = round.take();
  decision.moves = beside_guaranteed(state, std::move(moves), displaced);
  return decision;
}

}  // namespace dl::policy
