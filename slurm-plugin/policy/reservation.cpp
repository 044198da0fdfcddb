// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/reservation.h"

#include <algorithm>

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
  int learners = 0;
  for (const Part& part : *end.parts) learners += part.learners;
  return learners * end.gpus_per_learner;
}

std::vector<End> ends_of(const Round& round) {
  const ClusterState& state = round.state;
  std::vector<End> ends;
  for (size_t i = state.first_running; i < state.jobs.size(); ++i) {
    const Job& job = state.jobs[i];
    if (!job.running) continue;
    // Of a limit that is not known: as long again as it has run.
    const int64_t ran_s = std::max<int64_t>(1, state.now_s - job.start_s);
    const int64_t at_s = job.limit_s > 0 ? job.start_s + job.limit_s : state.now_s + ran_s;
    ends.push_back(End{std::max(state.now_s + 1, at_s), state.type_held(job), job.tenant, &job.parts,
                       job.gpus_per_learner, job.own_of(job.gpus())});
  }
  for (const Start& start : round.decision.starts) {
    const Job& job = state.jobs[start.job];
    const int64_t runs_s = job.limit_s > 0 ? job.limit_s : std::max<int64_t>(1, state.patience_s);
    ends.push_back(
        End{state.now_s + runs_s, start.type, job.tenant, &start.parts, job.gpus_per_learner, start.own_part});
    if (start.charge == Charge::kOwn) ends.back().own = gpus_of(ends.back());
  }
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.at_s < b.at_s; });
  return ends;
}

// Would the job's tenant be let have it?
bool entitled(const Round& round, const Ledger& ledger, const Job& job, int type) {
  const int gpus = job.min_learners * job.gpus_per_learner;
  if (job.tier != Tier::kBorrow && ledger.fits_own(job.tenant, type, gpus)) return true;
  if (job.tier == Tier::kGuaranteed) return false;
  const int lent = gpus - (job.tier == Tier::kAuto ? ledger.own_part(job.tenant, type, gpus) : 0);
  return round.ledger.within_borrow_limit(job.tenant, lent) && ledger.lendable(type, lent);
}

}  // namespace

std::optional<Reservation> Reservation::of(const Round& round, int index, std::optional<std::vector<End>>* known) {
  const Job& job = round.state.jobs[index];
  Ledger ledger = round.ledger;
  Reservation found(round, index, round.free);
  found.gpus_per_learner_ = job.gpus_per_learner;
  found.learners_ = job.min_learners;
  const auto fits_at = [&](int64_t at_s) {
    for (int type = 0; type < round.state.type_count(); ++type) {
      if (!may_use(job, type) || found.room_.slots(type, job.gpus_per_learner) < job.min_learners ||
          !entitled(round, ledger, job, type))
        continue;
      auto parts = place(job.placement, found.room_, type, job.gpus_per_learner, job.min_learners);
      if (!parts) continue;
      found.type_ = type;
      found.at_s_ = at_s;
      found.parts_ = std::move(*parts);
      return true;
    }
    return false;
  };
  if (fits_at(round.state.now_s)) return found;
  if (!*known) *known = ends_of(round);
  const std::vector<End>& ends = **known;
  for (size_t i = 0; i < ends.size(); ++i) {
    const End& end = ends[i];
    // The cap.
    if (end.at_s - round.state.now_s > round.state.now_s - job.submit_s) return std::nullopt;
    found.room_.give(*end.parts, end.gpus_per_learner);
    ledger.add(end.tenant, end.type, -end.own, end.own - gpus_of(end));
    if (i + 1 < ends.size() && ends[i + 1].at_s == end.at_s) continue;
    if (fits_at(end.at_s)) return found;
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
  std::optional<std::vector<End>> ends;
  for (const int index : round.queue) {
    const Job& job = round.state.jobs[index];
    if (!round.impatient(job)) continue;
    if (round.asked(index) == smallest && job.gpus_per_learner == 1) continue;
    if (!round.users.allows(job)) continue;
    if (auto found = of(round, index, &ends)) return found;
    if (++tries == kMostTries) return std::nullopt;
  }
  return std::nullopt;
}

bool Reservation::admit(int64_t limit_s, int type, const std::vector<Part>& parts, int gpus_per_learner) {
  if (type != type_ || ends_before(limit_s)) return true;
  room_.take(parts, gpus_per_learner);
  if (room_.slots(type_, gpus_per_learner_) >= learners_) return true;
  room_.give(parts, gpus_per_learner);
  return false;
}

}  // namespace dl::policy
