// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "slurm-plugin/policy/elastic/admit.h"
#include "slurm-plugin/policy/elastic/one_type.h"
#include "slurm-plugin/policy/elastic/several_types.h"

namespace dl::policy::elastic {
namespace {

constexpr int kMostRounds = 3;         // of moves between types
constexpr size_t kMostOneByOne = 100;  // jobs
constexpr double kRounding = 1e-9;     // relative: sums of the same numbers in another order differ by less

class Optimiser {
 public:
  explicit Optimiser(const Problem& problem) : problem_(problem), options_(problem.jobs.size()) {
    for (int type = 0; type < problem.types; ++type) left_.emplace_back(problem, type);
    types_ = admit(problem, &left_);
    for (size_t i = 0; i < options_.size(); ++i) {
      if (types_[i] == kNothing) continue;
      for (int type = 0; type < problem.types; ++type)
        options_[i].push_back(options_of(problem, static_cast<int>(i), type));
    }
  }

  Allocation solve() {
    best_.points.assign(problem_.jobs.size(), kNothing);
    best_.value = -1;
    best_.bound = std::numeric_limits<double>::infinity();
    for (int round = 0; round < kMostRounds; ++round) {
      const auto prices = consider_envelopes();
      best_.bound = std::min(best_.bound, bound_of(problem_, options_, prices));
      if (!move_between_types(prices)) break;
    }
    if (problem_.types > 1 && !good_enough()) choose_types();
    go_to_best();
    if (!good_enough()) move_one_by_one();
    if (!good_enough()) search();
    best_.exact = best_.exact || best_.value >= best_.bound * (1 - kRounding);
    best_.bound = std::max(best_.bound, best_.value);
    return std::move(best_);
  }

 private:
  // From prices that fit all types at once, where the rounds came to rest at less.
  void choose_types() {
    go_to_best();
    Prices prices = consider_envelopes();
    best_.bound = std::min(best_.bound, improve(problem_, options_, &prices));
    const auto types = types_at(problem_, options_, prices);
    if (!types) return;
    go_to(*types);
    consider_envelopes();
  }

  bool good_enough() const { return best_.value >= best_.bound * (1 - std::max(problem_.gap, kRounding)); }

  OneType of_type(int type) const {
    OneType one{{}, Limits(problem_, type)};
    for (size_t i = 0; i < types_.size(); ++i) {
      if (types_[i] != type) continue;
      const auto& options = options_[i][type];
      one.limits.take(problem_.jobs[i].share, options.front().gpus);
      one.items.push_back({static_cast<int>(i), problem_.jobs[i].share, options, envelope(options)});
    }
    return one;
  }

  // Takes what `choose` says of each type, if it is better than all before.
  template <typename Choose>
  void consider(Choose choose) {
    std::vector<int> points(problem_.jobs.size(), kNothing);
    double value = 0;
    for (int type = 0; type < problem_.types; ++type) {
      const OneType one = of_type(type);
      const Choices choices = choose(one);
      value += elastic::value_of(one, choices);
      for (size_t i = 0; i < choices.size(); ++i) points[one.items[i].job] = one.items[i].options[choices[i]].point;
    }
    if (value <= best_.value) return;
    best_.value = value;
    best_.points = std::move(points);
    best_types_ = types_;
  }

  // Returns the prices, by type.
  Prices consider_envelopes() {
    Prices prices;
    consider([&](const OneType& one) {
      Greedy greedy = by_envelopes(one);
      prices.push_back(std::move(greedy.prices));
      return greedy.choices;
    });
    return prices;
  }

  // Jobs for which another type is worth more at these prices go there, where their smallest size fits. Only some of
  // them, the first: all at once would go to and fro.
  bool move_between_types(const Prices& prices) {
    std::vector<int> wish;
    for (size_t i = 0; i < types_.size(); ++i)
      if (types_[i] != kNothing && preference(problem_, options_, prices, static_cast<int>(i)).type != types_[i])
        wish.push_back(static_cast<int>(i));
    bool moved = false;
    size_t most = (wish.size() + 1) / 2;
    for (const int job : wish) {
      if (most == 0) break;
      if (!change_type(job, preference(problem_, options_, prices, job).type)) continue;
      moved = true;
      --most;
    }
    return moved;
  }

  // Where GPUs are few, prices say little about where a job does best: each job is tried on each type.
  void move_one_by_one() {
    if (problem_.types == 1 || types_.size() > kMostOneByOne) return;
    int64_t pass = 1;  // options that one try looks at
    for (const auto& of_job : options_)
      for (const auto& of_type : of_job) pass += static_cast<int64_t>(of_type.size());
    int64_t tries = problem_.work / pass;
    for (bool better = true; better && tries > 0;) {
      better = false;
      for (size_t i = 0; i < types_.size(); ++i) {
        for (int type = 0; types_[i] != kNothing && type < problem_.types; ++type) {
          const double before = best_.value;
          const int from = types_[i];
          if (type == from || tries <= 0 || !change_type(static_cast<int>(i), type)) continue;
          --tries;
          consider_envelopes();
          if (best_.value > before * (1 + kRounding))
            better = true;
          else
            change_type(static_cast<int>(i), from);
        }
      }
    }
    go_to_best();
  }

  void go_to_best() { go_to(best_types_); }

  void go_to(const std::vector<int>& types) {
    types_ = types;
    left_.clear();
    for (int type = 0; type < problem_.types; ++type) left_.emplace_back(problem_, type);
    for (size_t i = 0; i < types_.size(); ++i)
      if (types_[i] != kNothing) left_[types_[i]].take(problem_.jobs[i].share, options_[i][types_[i]].front().gpus);
  }

  // False, and nothing is changed, if the job cannot have GPUs of this type.
  bool change_type(int job, int to) {
    if (options_[job][to].empty()) return false;
    const int share = problem_.jobs[job].share;
    const int from = types_[job];
    left_[from].take(share, -options_[job][from].front().gpus);
    const bool fits = options_[job][to].front().gpus <= left_[to].left(share);
    if (fits) types_[job] = to;
    left_[types_[job]].take(share, options_[job][types_[job]].front().gpus);
    return fits;
  }

  void search() {
    bool all = true;
    int64_t work = problem_.work;
    consider([&](const OneType& one) {
      auto choices = by_programme(one, work);
      all = all && choices;
      if (!choices) return by_envelopes(one).choices;
      return *std::move(choices);
    });
    best_.exact = all && one_type_each();
    // What the programme finds is the optimum, and no less than that can be the bound.
    if (best_.exact) best_.bound = best_.value;
  }

  // True if no job could have had GPUs of another type than it got.
  bool one_type_each() const {
    for (size_t i = 0; i < types_.size(); ++i) {
      if (types_[i] == kNothing) continue;
      for (int type = 0; type < problem_.types; ++type)
        if (type != types_[i] && !options_[i][type].empty()) return false;
    }
    return true;
  }

  const Problem& problem_;
  AllOptions options_;
  std::vector<Limits> left_;             // by type, without the smallest sizes of all
  std::vector<int> types_, best_types_;  // by job
  Allocation best_;
};

// The same problem, in which running jobs have no other size than theirs. Nothing if these are not within the limits.
std::optional<Problem> all_kept(const Problem& problem) {
  Problem kept = problem;
  std::vector<Limits> left;
  for (int type = 0; type < problem.types; ++type) left.emplace_back(problem, type);
  for (Job& job : kept.jobs) {
    if (job.now == kNothing) continue;
    const Point now = job.points[job.now];
    if (left[now.type].left(job.share) < now.gpus) return std::nullopt;
    left[now.type].take(job.share, now.gpus);
    job.points = {now};
    job.now = 0;
  }
  return kept;
}

// What an allocation is worth in the whole problem.
double worth(const Problem& problem, const std::vector<int>& points) {
  double sum = 0;
  for (size_t i = 0; i < points.size(); ++i)
    if (points[i] != kNothing) sum += value_of(problem, static_cast<int>(i), points[i]);
  return sum;
}

}  // namespace

Allocation optimise(const Problem& problem) {
  Allocation best = Optimiser(problem).solve();
  const bool runs =
      std::any_of(problem.jobs.begin(), problem.jobs.end(), [](const Job& j) { return j.now != kNothing; });
  if (!runs) return best;
  const auto kept = all_kept(problem);
  if (!kept) return best;
  Allocation same = Optimiser(*kept).solve();
  for (size_t i = 0; i < problem.jobs.size(); ++i) {
    if (problem.jobs[i].now != kNothing) same.points[i] = problem.jobs[i].now;
    // A job that can be admitted is not left waiting for what the others would lose.
    if (!may_wait(problem, problem.jobs[i]) && (same.points[i] == kNothing) != (best.points[i] == kNothing))
      return best;
  }
  // Its own value counts running jobs as 1 each; all else is the same.
  const double more = worth(problem, same.points) - same.value;
  same.value += more;
  // Nothing is changed but for a gain: so an answer that is carried out is the answer again.
  if (best.value > same.value * (1 + kRounding)) return best;
  same.kept = true;
  same.exact = same.exact && best.exact;
  same.bound = std::max(best.bound, same.value);
  return same;
}

}  // namespace dl::policy::elastic
