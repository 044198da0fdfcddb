// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/drop.h"

#include <algorithm>
#include <tuple>

#include "slurm-plugin/policy/job_id.h"

namespace dl::policy {
namespace {

int smallest(const Job& job) {
  return job.min_learners * job.gpus_per_learner;
}

// What a running job may come down to without being stopped.
int least(const Job& job) {
  if (job.companion) return 0;
  return job.elastic() && job.pausable ? std::min(smallest(job), job.gpus()) : job.gpus();
}

class Admitting {
 public:
  Admitting(const ClusterState& state, const Decision& decision, const std::vector<char>& begun, int64_t after_s)
      : state_(with_moves(state, decision)),
        begun_(begun),
        after_s_(after_s),
        ledger_(state_),
        room_(state.types.size()),
        start_(state.jobs.size()),
        waits_(state.jobs.size()) {
    for (const Start& start : decision.starts) start_[start.job] = &start;
    for (const Waiting& one : decision.waiting)
      waits_[one.job] = (one.reason == Reason::kNoPlace || one.reason == Reason::kKept) && !one.kept_for ? 1 : 0;
  }

  std::vector<Drop> run() {
    for (const Node& node : state_.nodes) room_[node.type] += node.gpus;
    std::vector<int> pending;
    for (size_t i = 0; i < state_.jobs.size(); ++i) {
      const Job& job = state_.jobs[i];
      if (!job.running)
        pending.push_back(static_cast<int>(i));
      else if (const int type = state_.type_held(job); type != kAnyType)
        room_[type] -= least(job);
    }
    std::sort(pending.begin(), pending.end(), [&](int a, int b) {
      const Job& x = state_.jobs[a];
      const Job& y = state_.jobs[b];
      return std::tie(x.submit_s, x.id) < std::tie(y.submit_s, y.id);
    });
    leave(&pending, [&](int job) { return is_admitted(job); });
    leave(&pending, [&](int job) { return is_own(job); });
    std::vector<Drop> drops;
    for (const int index : pending) {
      const Job& job = state_.jobs[index];
      if (job.tier == Tier::kGuaranteed) continue;  // it waits for its quota, and takes what others borrow
      const int type = roomiest(job);
      if (type != kAnyType && smallest(job) <= room_[type])
        room_[type] -= smallest(job);
      else if (may_be_dropped(index))
        drops.push_back({index, smallest(job), type == kAnyType ? 0 : std::max<int64_t>(0, room_[type])});
    }
    return drops;
  }

 private:
  static ClusterState with_moves(ClusterState state, const Decision& decision) {
    for (const Move& move : decision.moves) carry_out(move, &state.jobs[move.job]);
    return state;
  }

  template <typename Pass>
  static void leave(std::vector<int>* pending, Pass&& passes) {
    pending->erase(std::remove_if(pending->begin(), pending->end(), passes), pending->end());
  }

  bool is_admitted(int index) {
    const Job& job = state_.jobs[index];
    const Start* start = start_[index];
    if (start == nullptr && !job.promised && job.yields_to == kNobody && begun_[index] == 0) return false;
    const int type = start != nullptr ? start->type : roomiest(job);
    if (type == kAnyType) return true;
    room_[type] -= smallest(job);
    if (start != nullptr) {
      const int gpus = learners_of(start->parts) * job.gpus_per_learner;
      const int own = start->charge == Charge::kOwn ? gpus : start->own_part;
      ledger_.add(job.tenant, type, own, gpus - own);
    } else if (job.promised && job.charge == Charge::kOwn) {
      ledger_.add(job.tenant, type, smallest(job), Charge::kOwn);
    }
    return true;
  }

  bool is_own(int index) {
    const Job& job = state_.jobs[index];
    if (job.tier == Tier::kBorrow) return false;
    int best = kAnyType;
    for (int type = 0; type < state_.type_count(); ++type)
      if (can_use(job, type) && ledger_.fits_own(job.tenant, type, smallest(job)) &&
          (best == kAnyType || room_[type] > room_[best]))
        best = type;
    if (best == kAnyType) return false;
    ledger_.add(job.tenant, best, smallest(job), Charge::kOwn);
    room_[best] -= smallest(job);
    return true;
  }

  bool may_be_dropped(int index) const {
    const Job& job = state_.jobs[index];
    const int64_t waited_s = state_.now_s - job.submit_s;
    return job.elastic() && waits_[index] != 0 && !is_element(job.id) && waited_s >= after_s_ &&
           waited_s < after_s_ + kDropWithinS;
  }

  static bool can_use(const Job& job, int type) { return job.type == kAnyType || job.type == type; }

  int roomiest(const Job& job) const {
    int best = kAnyType;
    for (int type = 0; type < state_.type_count(); ++type)
      if (can_use(job, type) && (best == kAnyType || room_[type] > room_[best])) best = type;
    return best;
  }

  const ClusterState state_;
  const std::vector<char>& begun_;
  int64_t after_s_;
  Ledger ledger_;
  std::vector<int64_t> room_;  // by type: GPUs that those admitted so far leave, at their smallest sizes
  std::vector<const Start*> start_;
  std::vector<char> waits_;  // by job: for GPUs that others have
};

}  // namespace

std::vector<Drop> not_admitted(const ClusterState& state, const Decision& decision, const std::vector<char>& begun,
                               int64_t after_s) {
  const bool any =
      std::any_of(state.jobs.begin(), state.jobs.end(), [](const Job& job) { return !job.running && job.elastic(); });
  if (!state.nodes_known || !any) return {};
  return Admitting(state, decision, begun, after_s).run();
}

}  // namespace dl::policy
