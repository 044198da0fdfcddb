// SPDX-License-Identifier: Apache-2.0
// What in_turns.cpp tries: jobs of which so much can be asked, and whether claims fit once that is done. For the files
// of in_turns.h alone.
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

// What may be asked of a job.
struct Option {
  int left = 0;  // learners
  Loss loss;
};

// A job that may be asked.
struct Candidate {
  Yielding who;
  int type = 0;
  int has = 0;          // learners, without any of the claims
  int keeps_whole = 0;  // learners that are its tenant's own: it keeps them if it is asked as a borrower
  int min_learners = 1;
  std::vector<Option> options;            // the fewest learners last; to do nothing is not listed
  std::vector<std::vector<Freed>> freed;  // what becomes free, by size(); nodes by their places in Candidates::nodes

  // The place in `freed` of a number of learners that it may have: 0, or `min_learners` to `has`.
  size_t size(int left) const { return left == 0 ? 0 : static_cast<size_t>(1 + std::max(0, left - min_learners)); }
  const std::vector<Freed>& freed_at(int left) const { return freed[size(left)]; }
  bool as_borrower(int left) const { return left == 0 ? keeps_whole < min_learners : left >= keeps_whole; }
  // Learners that a borrower keeps at least.
  int least_as_borrower() const { return keeps_whole < min_learners ? 0 : std::min(has, keeps_whole); }
};

struct Candidates {
  std::vector<Candidate> all;           // the youngest first
  std::vector<std::vector<int>> nodes;  // by type: those that the jobs are on
};

// `before`: what was asked of jobs already. `free`: which nodes are usable.
Candidates candidates_of(const ClusterState& state, const std::vector<Yielding>& yielding, const SoFar& before,
                         const FreeGpus& free);
// What asking a candidate to keep so many learners costs; `own`: GPUs of it that are not borrowed.
Loss loss_of(const ClusterState& state, const Candidate& candidate, int left, int own);
Need need_of(const ClusterState& state, const Taken& claim);

// Do claims fit, by which of them have got GPUs of a type, and by the learners that candidates have left?
class Rooms {
 public:
  // *steps: counted down for whatever is looked at.
  Rooms(const ClusterState& state, const FreeGpus& free, const std::vector<Taken>& claims, const Candidates& candidates,
        int64_t* steps)
      : state_(state), free_(free), claims_(claims), candidates_(candidates), steps_(*steps) {}

  // `which`: a bit for each claim that gets GPUs of the type.
  bool enough(int type, unsigned which, const std::vector<int>& left);
  // False: packing was cut short, so that there may have been enough where enough() said no.
  bool exact() const { return packing_steps_ > 0; }

 private:
  struct Room {
    Room(const FreeGpus& free, int type, const std::vector<Need>& needs, int* steps)
        : gangs(free, type, needs, steps) {}
    GangsRoom gangs;
    std::vector<int> left;  // that is counted in `gangs`
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
