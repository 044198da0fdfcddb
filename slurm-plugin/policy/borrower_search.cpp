// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/borrower_search.h"

#include <algorithm>
#include <iterator>

#include "slurm-plugin/policy/rank_borrowers.h"

namespace dl::policy {
namespace {

// Of the borrowers of one type.
constexpr size_t kFewBorrowers = 512;
constexpr size_t kFirstLook = 16;
// Ranking looks at all borrowers, so it has to serve many searches.
constexpr int kSearchesBeforeAnew = 32;

}  // namespace

std::vector<int> BorrowerSearch::all(Space::When when) const {
  const bool also_protected = when == Space::When::kLast;
  std::vector<int> jobs;
  for (const int other : takeable_)
    if (also_protected || planned_[other] == 0) jobs.push_back(other);
  if (!also_protected) return jobs;
  std::vector<int> all;
  std::set_union(jobs.begin(), jobs.end(), protected_.begin(), protected_.end(), std::back_inserter(all));
  return all;
}

// Sorted once; who has nothing left to give is dropped.
BorrowerSearch::Ranked& BorrowerSearch::ranked(int type, int size, Space::When when) {
  Ranked& ranked = ranked_[{type, size, when == Space::When::kLast ? 1 : 0}];
  if (ranked.known) return ranked;
  ranked.known = true;
  ranked.searches = 0;
  std::vector<int> jobs = all(when);
  drop_gone(&jobs);
  ranked.jobs = rank_borrowers(state_, space_.at(when), type, size, jobs);
  return ranked;
}

// Among few the search tries them all. Among thousands it would take as long for each of thousands of claims: there
// it looks at the cheapest, and at more of them as long as these are not enough. That also happens when the nodes that
// were cheapest once have given what they had; then all are ranked anew.
std::optional<VictimSet> BorrowerSearch::find(const Job& job, int type, Space::When when) {
  // Borrowers are the same for all tenants.
  int& none = no_set_[{type, job.gpus_per_learner, when == Space::When::kLast ? 1 : 0}];
  if (none != 0 && none <= job.min_learners) return std::nullopt;
  auto found = search(job, type, when);
  if (!found) none = none == 0 ? job.min_learners : std::min(none, job.min_learners);
  return found;
}

std::optional<VictimSet> BorrowerSearch::search(const Job& job, int type, Space::When when) {
  const auto among = [&](const std::vector<int>& jobs) {
    return find_victims(state_, space_.at(when), type, job.gpus_per_learner, job.min_learners, jobs, budget_, true,
                        &so_far_);
  };
  Ranked& known = ranked(type, job.gpus_per_learner, when);
  const std::vector<int>& all = known.jobs;
  if (all.size() <= kFewBorrowers && *budget_ > 0) {
    *budget_ -= static_cast<int>(all.size());
    std::vector<int> jobs;
    for (const int other : all)
      if (when == Space::When::kLast || planned_[other] == 0) jobs.push_back(other);
    std::sort(jobs.begin(), jobs.end());
    return among(jobs);
  }
  ++known.searches;
  const size_t first = std::max(kFirstLook, 2 * static_cast<size_t>(job.min_learners * job.gpus_per_learner));
  for (size_t most = first;; most *= 8) {
    if (most > first && known.searches > kSearchesBeforeAnew) {
      known.known = false;
      ranked(type, job.gpus_per_learner, when);
      most = first;
    }
    std::vector<int> some;
    size_t seen = 0;
    size_t gone = 0;
    for (; seen < all.size() && some.size() < most; ++seen) {
      const int other = all[seen];
      gone += so_far_.left[other] == 0 ? 1 : 0;
      if (so_far_.left[other] > 0 && (when == Space::When::kLast || planned_[other] == 0)) some.push_back(other);
    }
    const bool whole = seen == all.size();
    auto found = among(some);
    if (gone > kFirstLook) drop_gone(&known.jobs);
    if (found) found->exact = found->exact && whole;
    if (found || whole) return found;
  }
}

void BorrowerSearch::drop_gone(std::vector<int>* jobs) const {
  jobs->erase(std::remove_if(jobs->begin(), jobs->end(), [&](int other) { return so_far_.left[other] == 0; }),
              jobs->end());
}

}  // namespace dl::policy
