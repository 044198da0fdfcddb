// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/reservation.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "slurm-plugin/policy/placement.h"

namespace dl::policy {

struct Reservation::End {
  int64_t at_s;
  int type;
  int tenant;
  const std::vector<Part>* parts;
  int gpus_per_learner;
  int own;  // GPUs of it that are charged to the quota
};

namespace {

using End = Reservation::End;

// Each try looks at all running jobs; who has no hope is mostly the oldest, and there may be many like it.
constexpr int kMostTries = 8;

int gpus_of(const End& end) {
  return learners_of(*end.parts) * end.gpus_per_learner;
}

int64_t ends_at(const ClusterState& state, const Job& job) {
  // A job without a known time limit is assumed to run as long again as it has run so far.
  const int64_t ran_s = std::max<int64_t>(1, state.now_s - job.start_s);
  const int64_t at_s = job.limit_s > 0 ? job.start_s + job.limit_s : state.now_s + ran_s;
  return std::max(state.now_s + 1, at_s);
}

// When jobs end by themselves, as far as anybody has asked: mostly only about the first few.
class Ends {
 public:
  explicit Ends(const Round& round) {
    const ClusterState& state = round.state;
    for (size_t i = state.first_running; i < state.jobs.size(); ++i) {
      const Job& job = state.jobs[i];
      if (!job.running) continue;
      add(End{ends_at(state, job), state.type_held(job), job.tenant, &job.parts, job.gpus_per_learner,
              job.own_of(job.gpus())});
    }
    for (const Start& start : round.decision.starts) {
      const Job& job = state.jobs[start.job];
      const int64_t runs_s = job.limit_s > 0 ? job.limit_s : std::max<int64_t>(1, state.patience_s);
      End end{state.now_s + runs_s, start.type, job.tenant, &start.parts, job.gpus_per_learner, start.own_part};
      if (start.charge == Charge::kOwn) end.own = gpus_of(end);
      add(end);
    }
    std::make_heap(later_.begin(), later_.end(), std::greater<>());
  }

  // The nth, counted from 0; nullptr: there are not so many. Of equal times in the order of the jobs.
  const End* at(size_t nth) {
    while (nth >= sorted_.size() && !later_.empty()) {
      std::pop_heap(later_.begin(), later_.end(), std::greater<>());
      sorted_.push_back(later_.back().second);
      later_.pop_back();
    }
    return nth < sorted_.size() ? &all_[sorted_[nth]] : nullptr;
  }

 private:
  void add(const End& end) {
    later_.emplace_back(end.at_s, all_.size());
    all_.push_back(end);
  }

  std::vector<End> all_;
  std::vector<size_t> sorted_;
  std::vector<std::pair<int64_t, size_t>> later_;  // the others, a heap with the first one on top
};

// Would the job's tenant be let have it?
bool entitled(const Round& round, const Ledger& ledger, const Job& job, int type) {
  const int gpus = job.min_learners * job.gpus_per_learner;
  if (job.tier != Tier::kBorrow && ledger.fits_own(job.tenant, type, gpus)) return true;
  if (job.tier == Tier::kGuaranteed) return false;
  const int lent = gpus - (job.tier == Tier::kAuto ? ledger.own_part(job.tenant, type, gpus) : 0);
  return round.ledger.within_borrow_limit(job.tenant, lent) && ledger.lendable(type, lent);
}

}  // namespace

// What find() works with: made when the first job needs it, and used again for the jobs after that.
struct Reservation::Tries {
  std::optional<Ends> ends;
  std::optional<Ledger> ledger;
  std::optional<FreeGpus> room;
};

std::optional<Reservation> Reservation::of(const Round& round, int index, Tries* tries) {
  const Job& job = round.state.jobs[index];
  const auto found_at = [&](int64_t at_s, const FreeGpus& room, const Ledger& ledger) -> std::optional<Reservation> {
    for (int type = 0; type < round.state.type_count(); ++type) {
      if (!may_use(job, type) || room.slots(type, job.gpus_per_learner) < job.min_learners ||
          !entitled(round, ledger, job, type))
        continue;
      auto parts = place(job.placement, room, type, job.gpus_per_learner, job.min_learners);
      if (!parts) continue;
      Reservation found(round, index, room);
      found.gpus_per_learner_ = job.gpus_per_learner;
      found.learners_ = job.min_learners;
      found.type_ = type;
      found.at_s_ = at_s;
      found.parts_ = std::move(*parts);
      return found;
    }
    return std::nullopt;
  };
  if (auto found = found_at(round.state.now_s, round.free, round.ledger)) return found;
  if (!tries->ends) tries->ends.emplace(round);
  tries->ledger = round.ledger;
  tries->room = round.free;
  for (size_t i = 0; tries->ends->at(i) != nullptr; ++i) {
    const End end = *tries->ends->at(i);
    // The cap.
    if (end.at_s - round.state.now_s > round.state.now_s - job.submit_s) return std::nullopt;
    tries->room->give(*end.parts, end.gpus_per_learner);
    tries->ledger->add(end.tenant, end.type, -end.own, end.own - gpus_of(end));
    const End* next = tries->ends->at(i + 1);
    if (next != nullptr && next->at_s == end.at_s) continue;
    if (auto found = found_at(end.at_s, *tries->room, *tries->ledger)) return found;
  }
  return std::nullopt;
}

std::optional<Reservation> Reservation::find(const Round& round) {
  if (round.state.patience_s <= 0) return std::nullopt;
  // Among jobs of one size nobody passes anybody: there the fair share alone decides.
  int smallest = 0;
  for (const int index : round.queue)
    smallest = smallest == 0 ? round.asks[index].gpus() : std::min(smallest, round.asks[index].gpus());
  int tries = 0;
  Tries of_all;
  for (const int index : round.queue) {
    const Job& job = round.state.jobs[index];
    if (!round.impatient(job)) continue;
    if (round.asked(index) == smallest && job.gpus_per_learner == 1) continue;
    if (!round.users.allows(job)) continue;
    if (auto found = of(round, index, &of_all)) return found;
    if (++tries == kMostTries) return std::nullopt;
  }
  return std::nullopt;
}

bool Reservation::admit_for(const Round& round, const std::vector<Victim>& victims, int64_t limit_s, int type,
                            const std::vector<Part>& parts, int gpus_per_learner) {
  if (type != type_ || ends_before(limit_s)) return true;
  const FreeGpus before = room_;
  for (const Victim& victim : victims) {
    const Job& job = round.state.jobs[victim.job];
    if (ends_at(round.state, job) <= at_s_) continue;
    room_.give(job.parts, job.gpus_per_learner);
    room_.take(parts_after_shrink(job.parts, victim.learners_left), job.gpus_per_learner);
  }
  if (admit(limit_s, type, parts, gpus_per_learner)) return true;
  room_ = before;
  return false;
}

bool Reservation::admit(int64_t limit_s, int type, const std::vector<Part>& parts, int gpus_per_learner) {
  if (type != type_ || ends_before(limit_s)) return true;
  room_.take(parts, gpus_per_learner);
  if (room_.slots(type_, gpus_per_learner_) >= learners_) return true;
  room_.give(parts, gpus_per_learner);
  return false;
}

}  // namespace dl::policy
