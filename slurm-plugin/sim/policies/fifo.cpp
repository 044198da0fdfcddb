// SPDX-License-Identifier: Apache-2.0
// Two policies without quotas, in the order of submission: strict, and with EASY backfill.
//
// EASY: the oldest job that does not fit gets a reservation: the earliest time at which enough running jobs have
// reached their time limits. A younger job starts if it fits now and either ends by its own limit before that time, or
// leaves the reserved place whole. Only the oldest job has a reservation.
#include <algorithm>
#include <limits>

#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/sim/policies/policies.h"

namespace dl::sim {
namespace {

using policy::FreeGpus;

struct Reservation {
  int64_t at_s = 0;
  int type = 0;
  FreeGpus room;  // what will be free at that time
};

bool fits(const FreeGpus& room, const policy::Job& job, int type) {
  return room.slots(type, job.gpus_per_learner) >= job.min_learners;
}

int64_t end_of(const View& view, const policy::Start& start) {
  return view.state.now_s + view.limit_of(start.job, learners_of(start.parts));
}

// The reservation of `head`. None if the job does not even fit when all running jobs have ended.
std::optional<Reservation> reserve(const View& view, const FreeGpus& free, const std::vector<policy::Start>& started,
                                   const policy::Job& head) {
  struct End {
    int64_t at_s;
    const std::vector<policy::Part>* parts;
    int size;
  };
  const policy::ClusterState& state = view.state;
  std::vector<End> ends;
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    const policy::Job& job = state.jobs[i];
    // A job can run past its limit here because its restart took time; it is assumed to end in the next second.
    if (job.running)
      ends.push_back(End{std::max(state.now_s + 1, job.start_s + view.limit_of(static_cast<int>(i), job.learners())),
                         &job.parts, job.gpus_per_learner});
  }
  for (const policy::Start& start : started)
    ends.push_back(End{end_of(view, start), &start.parts, state.jobs[start.job].gpus_per_learner});
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.at_s < b.at_s; });
  FreeGpus room = free;
  for (size_t i = 0; i < ends.size(); ++i) {
    room.give(*ends[i].parts, ends[i].size);
    if (i + 1 < ends.size() && ends[i + 1].at_s == ends[i].at_s) continue;
    for (int type = 0; type < state.type_count(); ++type) {
      if ((head.type == policy::kAnyType || head.type == type) && fits(room, head, type))
        return Reservation{ends[i].at_s, type, room};
    }
  }
  return std::nullopt;
}

Turn in_order(const View& view, bool backfill) {
  const policy::ClusterState& state = view.state;
  Turn turn;
  FreeGpus free(state);
  std::optional<Reservation> reserved;
  const policy::Job* head = nullptr;
  for (const int index : queue_of(state)) {
    const policy::Job& job = state.jobs[index];
    auto start = place_job(state, free, index);
    if (!start) {
      if (!backfill) break;
      if (head == nullptr) {
        head = &job;
        reserved = reserve(view, free, turn.decision.starts, job);
      }
      continue;
    }
    if (reserved && end_of(view, *start) > reserved->at_s) {
      reserved->room.take(start->parts, job.gpus_per_learner);
      if (!fits(reserved->room, *head, reserved->type)) {
        reserved->room.give(start->parts, job.gpus_per_learner);
        continue;
      }
    }
    free.take(start->parts, job.gpus_per_learner);
    turn.decision.starts.push_back(std::move(*start));
  }
  return turn;
}

}  // namespace

Turn plan_fifo(const View& view, Dice* /*dice*/) {
  return in_order(view, false);
}

Turn plan_backfill(const View& view, Dice* /*dice*/) {
  return in_order(view, true);
}

}  // namespace dl::sim
