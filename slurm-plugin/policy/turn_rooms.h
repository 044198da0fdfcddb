// SPDX-License-Identifier: Apache-2.0
// The jobs that in_turns.cpp may ask to yield, with what each can give up, and whether claims have room once it was
// given up. Only the files of in_turns.h include this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "slurm-plugin/policy/gangs_room.h"
#include "slurm-plugin/policy/in_turns.h"

namespace dl::policy::in_turns {

// One way in which a job may yield.
struct Option {
  int left = 0;  // learners that it keeps
  Loss loss;
};

// A job that may be asked to yield.
struct Candidate {
  Yielding who;
  int type = 0;
  int has = 0;          // learners that it has if none of the claims asks it
  int keeps_whole = 0;  // learners that its tenant's quota pays for: as a borrower it is not asked for these
  int min_learners = 1;
  std::vector<Option> options;            // from the most learners left to the fewest; all of them yield something
  std::vector<std::vector<Freed>> freed;  // what becomes free, by size(); nodes are indexes into Candidates::nodes

  // Index into `freed` for a job that keeps `left` learners: 0, or `min_learners` to `has`.
  size_t size(int left) const { return left == 0 ? 0 : static_cast<size_t>(1 + std::max(0, left - min_learners)); }
  const std::vector<Freed>& freed_at(int left) const { return freed[size(left)]; }
  bool as_borrower(int left) const { return left == 0 ? keeps_whole < min_learners : left >= keeps_whole; }
  // The fewest learners that it keeps if it is asked as a borrower.
  int least_as_borrower() const { return keeps_whole < min_learners ? 0 : std::min(has, keeps_whole); }
};

struct Candidates {
  std::vector<Candidate> all;           // the youngest first
  std::vector<std::vector<int>> nodes;  // by type: those that the jobs are on
};

// before: what was asked of jobs already. free: says which nodes may be used.
Candidates candidates_of(const ClusterState& state, const std::vector<Yielding>& yielding, const SoFar& before,
                         const FreeGpus& free);
// What is lost if a candidate keeps `left` learners only. own: how many of its GPUs are not borrowed.
Loss loss_of(const ClusterState& state, const Candidate& candidate, int left, int own);
Need need_of(const ClusterState& state, const Taken& claim);

// Answers whether claims have room at the same time, once candidates have yielded.
class Rooms {
 public:
  // *steps is counted down with each step.
  Rooms(const ClusterState& state, const FreeGpus& free, const std::vector<Taken>& claims, const Candidates& candidates,
        int64_t* steps)
      : state_(state), free_(free), claims_(claims), candidates_(candidates), steps_(*steps) {}

  // Whether the claims in `which` (one bit for each) have room on GPUs of this type, if each candidate has `left`
  // learners.
  bool enough(int type, unsigned which, const std::vector<int>& left);
  // False: a search was cut short, so enough() may have answered no although there was room.
  bool exact() const { return packing_steps_ > 0; }

 private:
  struct Room {
    Room(const FreeGpus& free, int type, const std::vector<Need>& needs, int* steps)
        : gangs(free, type, needs, steps) {}
    GangsRoom gangs;
    std::vector<int> left;  // by candidate: the learners for which `gangs` is up to date
  };

  const ClusterState& state_;
  const FreeGpus& free_;
  const std::vector<Taken>& claims_;
  const Candidates& candidates_;
  int64_t& steps_;
  std::map<std::pair<int, unsigned>, std::unique_ptr<Room>> rooms_;
  int packing_steps_ = 10 * kPackingSteps;
};

}  // namespace dl::policy::in_turns
