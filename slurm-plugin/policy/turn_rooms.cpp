// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/turn_rooms.h"

#include <algorithm>

namespace dl::policy::in_turns {
namespace {

// Names nodes by their places in a list of those of their type, which grows as jobs name them.
class NodeNumbers {
 public:
  NodeNumbers(const ClusterState& state, std::vector<std::vector<int>>* nodes)
      : numbers_(state.nodes.size(), kNone), nodes_(*nodes) {}
  int of(int node, int type) {
    int& number = numbers_[node];
    if (number == kNone) {
      number = static_cast<int>(nodes_[type].size());
      nodes_[type].push_back(node);
    }
    return number;
  }

 private:
  static constexpr int kNone = -1;
  std::vector<int> numbers_;
  std::vector<std::vector<int>>& nodes_;
};

std::vector<Freed> freed_by(const Job& job, const Candidate& candidate, int left, const FreeGpus& free,
                            NodeNumbers* numbers) {
  std::vector<Freed> freed;
  const std::vector<Part> held = parts_after_shrink(job.parts, candidate.has);
  const std::vector<Part> kept = parts_after_shrink(held, left);  // by node
  for (const Part& part : held) {
    int gpus = part.learners;
    const auto still = std::lower_bound(kept.begin(), kept.end(), part.node,
                                        [](const Part& one, int node) { return one.node < node; });
    if (still != kept.end() && still->node == part.node) gpus -= still->learners;
    if (gpus == 0 || !free.node(part.node).usable) continue;
    freed.push_back(Freed{numbers->of(part.node, candidate.type), gpus * job.gpus_per_learner});
  }
  return freed;
}

Candidate candidate_of(const ClusterState& state, const Yielding& who, const SoFar& before, const FreeGpus& free,
                       NodeNumbers* numbers) {
  const Job& job = state.jobs[who.job];
  Candidate candidate;
  candidate.who = who;
  candidate.type = state.type_held(job);
  candidate.has = before.left[who.job];
  candidate.min_learners = job.min_learners;
  const int own = before.own[who.job];
  candidate.keeps_whole = own / job.gpus_per_learner;
  candidate.freed.resize(candidate.size(candidate.has) + 1);
  for (int left = candidate.has - 1; left >= 0; left = left > job.min_learners ? left - 1 : left > 0 ? 0 : -1) {
    if (left != 0 && left < job.min_learners) continue;
    candidate.freed[candidate.size(left)] = freed_by(job, candidate, left, free, numbers);
    if (who.of_guaranteed || candidate.as_borrower(left))
      candidate.options.push_back(Option{left, loss_of(state, candidate, left, own)});
  }
  return candidate;
}

}  // namespace

Loss loss_of(const ClusterState& state, const Candidate& candidate, int left, int own) {
  const Job& job = state.jobs[candidate.who.job];
  const bool asked = candidate.has < job.learners();  // then it pauses anyway
  Loss loss;
  loss.count = asked ? 0 : 1;
  const int64_t lost = lost_if_paused(state, job);
  if (left == 0) {
    loss.stopped_gpu_s = lost;
    loss.own_gpus = candidate.who.of_guaranteed ? 0 : own;
  } else {
    loss.shrunk_gpu_s = asked ? 0 : lost;
    loss.shrunk_gpus = (candidate.has - left) * job.gpus_per_learner;
  }
  return loss;
}

Candidates candidates_of(const ClusterState& state, const std::vector<Yielding>& yielding, const SoFar& before,
                         const FreeGpus& free) {
  Candidates candidates;
  candidates.nodes.resize(state.types.size());
  NodeNumbers numbers(state, &candidates.nodes);
  for (const Yielding& who : yielding) {
    candidates.all.push_back(candidate_of(state, who, before, free, &numbers));
    if (candidates.all.back().options.empty()) candidates.all.pop_back();
  }
  std::sort(candidates.all.begin(), candidates.all.end(), [&](const Candidate& a, const Candidate& b) {
    const Job& first = state.jobs[a.who.job];
    const Job& second = state.jobs[b.who.job];
    return first.start_s != second.start_s ? first.start_s > second.start_s : first.id > second.id;
  });
  return candidates;
}

Need need_of(const ClusterState& state, const Taken& claim) {
  const Job& job = state.jobs[claim.job];
  return Need{job.gpus_per_learner, job.min_learners};
}

bool Rooms::enough(int type, unsigned which, const std::vector<int>& left) {
  --steps_;
  if (which == 0) return true;
  std::unique_ptr<Room>& room = rooms_[{type, which}];
  if (!room) {
    std::vector<Need> needs;
    for (size_t i = 0; i < claims_.size(); ++i)
      if ((which >> i & 1U) != 0) needs.push_back(need_of(state_, claims_[i]));
    room = std::make_unique<Room>(free_, type, needs, &packing_steps_);
    room->gangs.look_at(free_, candidates_.nodes[type]);
    for (const Candidate& candidate : candidates_.all) room->left.push_back(candidate.has);
    steps_ -= static_cast<int64_t>(state_.nodes.size());
  }
  for (size_t i = 0; i < candidates_.all.size(); ++i) {
    const Candidate& candidate = candidates_.all[i];
    if (candidate.type != type || room->left[i] == left[i]) continue;
    const std::vector<Freed>& before = candidate.freed_at(room->left[i]);
    const std::vector<Freed>& then = candidate.freed_at(left[i]);
    room->gangs.apply(before, -1);
    room->gangs.apply(then, +1);
    room->left[i] = left[i];
    steps_ -= static_cast<int64_t>(before.size() + then.size());
  }
  return room->gangs.enough();
}

}  // namespace dl::policy::in_turns
