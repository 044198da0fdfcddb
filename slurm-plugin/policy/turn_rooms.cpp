// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/turn_rooms.h"

#include <algorithm>

namespace dl::policy::in_turns {
namespace {

// Names nodes by their places in `nodes`, of its type, which it adds to.
void number_nodes(const ClusterState& state, const FreeGpus& free, Candidate* candidate, std::vector<int>* nodes) {
  const Job& job = state.jobs[candidate->who.job];
  const std::vector<Part> held = parts_after_shrink(job.parts, candidate->has);
  candidate->freed.resize(static_cast<size_t>(candidate->has) + 1);
  for (int left = candidate->has - 1; left >= 0; --left) {
    const std::vector<Part> kept = parts_after_shrink(held, left);
    for (const Part& part : held) {
      int gpus = part.learners;
      for (const Part& k : kept)
        if (k.node == part.node) gpus -= k.learners;
      if (gpus == 0 || !free.node(part.node).usable) continue;
      const auto at = std::find(nodes->begin(), nodes->end(), part.node);
      const int number = static_cast<int>(at - nodes->begin());
      if (at == nodes->end()) nodes->push_back(part.node);
      candidate->freed[left].push_back(Freed{number, gpus * job.gpus_per_learner});
    }
  }
}

}  // namespace

Loss loss_of(const ClusterState& state, const Candidate& candidate, int left, int own) {
  const Job& job = state.jobs[candidate.who.job];
  const bool asked = candidate.has < job.learners();  // then it pauses anyway
  Loss loss;
  loss.count = asked ? 0 : 1;
  const int64_t lost = lost_if_paused(state, job);
  if (left == 0) {
    loss.stopped = lost;
    loss.own_gpus = candidate.who.of_guaranteed ? 0 : own;
  } else {
    loss.shrunk = asked ? 0 : lost;
    loss.shrunk_gpus = (candidate.has - left) * job.gpus_per_learner;
  }
  return loss;
}

Candidate candidate_of(const ClusterState& state, const Yielding& who, const SoFar& before, const FreeGpus& free,
                       std::vector<std::vector<int>>* nodes) {
  const Job& job = state.jobs[who.job];
  Candidate candidate;
  candidate.who = who;
  candidate.type = state.type_held(job);
  candidate.has = before.left[who.job];
  candidate.min_learners = job.min_learners;
  const int own = before.own[who.job];
  candidate.keeps_whole = own / job.gpus_per_learner;
  for (int left = candidate.has - 1; left >= 0; --left) {
    const bool possible = left == 0 || left >= job.min_learners;
    if (possible && (who.of_guaranteed || candidate.as_borrower(left)))
      candidate.options.push_back(Option{left, loss_of(state, candidate, left, own)});
  }
  number_nodes(state, free, &candidate, &(*nodes)[candidate.type]);
  return candidate;
}

Need need_of(const ClusterState& state, const Taken& claim) {
  const Job& job = state.jobs[claim.job];
  return Need{job.gpus_per_learner, job.min_learners};
}

bool Rooms::enough(int type, unsigned which, const std::vector<int>& left) {
  if (which == 0) return true;
  std::unique_ptr<Room>& room = rooms_[{type, which}];
  if (!room) {
    std::vector<Need> needs;
    for (size_t i = 0; i < claims_.size(); ++i)
      if ((which >> i & 1U) != 0) needs.push_back(need_of(state_, claims_[i]));
    room = std::make_unique<Room>(free_, type, needs, &packing_steps_);
    room->gangs.look_at(free_, nodes_[type]);
    for (const Candidate& candidate : candidates_) room->left.push_back(candidate.has);
  }
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].type != type || room->left[i] == left[i]) continue;
    room->gangs.apply(candidates_[i].freed[room->left[i]], -1);
    room->gangs.apply(candidates_[i].freed[left[i]], +1);
    room->left[i] = left[i];
  }
  return room->gangs.enough();
}

}  // namespace dl::policy::in_turns
