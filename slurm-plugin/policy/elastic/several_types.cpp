// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/elastic/several_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "slurm-plugin/policy/elastic/limits.h"

namespace dl::policy::elastic {
namespace {

constexpr int kMostSteps = 200;
constexpr int64_t kMostLookedAt = 40'000'000;  // options, over all steps
constexpr double kFirstStep = 0.5;             // of the mean price

struct Wish {
  int gpus = 0;
  double net = 0;
};

Wish wish(const std::vector<Option>& options, double price) {
  Wish best{options.front().gpus, options.front().value - price * options.front().gpus};
  for (const Option& option : options) {
    const double net = option.value - price * option.gpus;
    if (net > best.net) best = {option.gpus, net};
  }
  return best;
}

// The price of a share as the sum of what it and those above it add.
Prices parts_of(const Problem& problem, const Prices& prices) {
  Prices parts = prices;
  for (auto& of_type : parts)
    for (size_t share = of_type.size(); share-- > 0;)
      if (const int parent = problem.shares[share].parent; parent != kNothing)
        of_type[share] = std::max(0.0, of_type[share] - of_type[parent]);
  return parts;
}

Prices sums_of(const Problem& problem, Prices parts) {
  for (auto& of_type : parts)
    for (size_t share = 0; share < of_type.size(); ++share)
      if (const int parent = problem.shares[share].parent; parent != kNothing) of_type[share] += of_type[parent];
  return parts;
}

class Descent {
 public:
  Descent(const Problem& problem, const AllOptions& options) : problem_(problem), options_(options) {}

  double run(Prices* prices) {
    Prices parts = parts_of(problem_, *prices);
    const double step = kFirstStep * std::max(mean(parts), 1e-9);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < steps(); ++i) {
      const Prices now = sums_of(problem_, parts);
      const double bound = look(now, parts);
      if (bound < best) {
        best = bound;
        *prices = now;
      }
      for (int type = 0; type < problem_.types; ++type)
        for (size_t share = 0; share < parts[type].size(); ++share) move(step / std::sqrt(i + 1), type, share, &parts);
    }
    return best;
  }

 private:
  int steps() const {
    int64_t count = 1;
    for (const auto& of_job : options_)
      for (const auto& of_type : of_job) count += static_cast<int64_t>(of_type.size());
    return static_cast<int>(std::clamp<int64_t>(kMostLookedAt / count, 10, kMostSteps));
  }

  static double mean(const Prices& parts) {
    double sum = 0;
    int count = 0;
    for (const auto& of_type : parts) {
      sum += of_type.front();
      ++count;
    }
    return sum / count;
  }

  // The bound at these prices; wanted_ is how many GPUs would be wanted.
  double look(const Prices& prices, const Prices& parts) {
    wanted_.assign(problem_.types, std::vector<double>(problem_.shares.size()));
    double bound = 0;
    for (int type = 0; type < problem_.types; ++type)
      for (size_t share = 0; share < parts[type].size(); ++share)
        bound += parts[type][share] * problem_.shares[share].gpus[type];
    for (size_t job = 0; job < options_.size(); ++job) {
      int best_type = kNothing;
      Wish best;
      for (size_t type = 0; type < options_[job].size(); ++type) {
        if (options_[job][type].empty()) continue;
        const Wish here = wish(options_[job][type], prices[type][problem_.jobs[job].share]);
        if (best_type != kNothing && here.net <= best.net) continue;
        best_type = static_cast<int>(type);
        best = here;
      }
      if (best_type == kNothing) continue;
      bound += best.net;
      for (int at = problem_.jobs[job].share; at != kNothing; at = problem_.shares[at].parent)
        wanted_[best_type][at] += best.gpus;
    }
    return bound;
  }

  void move(double step, int type, size_t share, Prices* parts) const {
    const double there = std::max(1, problem_.shares[share].gpus[type]);
    const double too_many = std::clamp((wanted_[type][share] - problem_.shares[share].gpus[type]) / there, -1.0, 1.0);
    double& part = (*parts)[type][share];
    part = std::max(0.0, part + step * too_many);
  }

  const Problem& problem_;
  const AllOptions& options_;
  Prices wanted_;
};

}  // namespace

Preference preference(const Problem& problem, const AllOptions& options, const Prices& prices, int job) {
  Preference best;
  best.margin = std::numeric_limits<double>::infinity();
  for (size_t type = 0; type < options[job].size(); ++type) {
    if (options[job][type].empty()) continue;
    const double net = wish(options[job][type], prices[type][problem.jobs[job].share]).net;
    if (best.type == kNothing) {
      best.type = static_cast<int>(type);
      best.net = net;
    } else if (net > best.net) {
      best = {static_cast<int>(type), net, std::min(best.margin, net - best.net)};
    } else {
      best.margin = std::min(best.margin, best.net - net);
    }
  }
  return best;
}

double bound_of(const Problem& problem, const AllOptions& options, const Prices& prices) {
  const Prices parts = parts_of(problem, prices);
  double sum = 0;
  for (int type = 0; type < problem.types; ++type)
    for (size_t share = 0; share < parts[type].size(); ++share)
      sum += parts[type][share] * problem.shares[share].gpus[type];
  for (size_t job = 0; job < options.size(); ++job)
    if (!options[job].empty()) sum += preference(problem, options, prices, static_cast<int>(job)).net;
  return sum;
}

double improve(const Problem& problem, const AllOptions& options, Prices* prices) {
  return Descent(problem, options).run(prices);
}

std::optional<std::vector<int>> types_at(const Problem& problem, const AllOptions& options, const Prices& prices) {
  std::vector<Preference> wishes(options.size());
  std::vector<int> order;
  for (size_t job = 0; job < options.size(); ++job) {
    if (options[job].empty()) continue;
    wishes[job] = preference(problem, options, prices, static_cast<int>(job));
    order.push_back(static_cast<int>(job));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return wishes[a].margin > wishes[b].margin; });
  std::vector<Limits> left;
  for (int type = 0; type < problem.types; ++type) left.emplace_back(problem, type);
  std::vector<int> types(options.size(), kNothing);
  for (const int job : order) {
    const int share = problem.jobs[job].share;
    double best_net = -std::numeric_limits<double>::infinity();
    for (int type = 0; type < problem.types; ++type) {
      const auto& here = options[job][type];
      if (here.empty() || here.front().gpus > left[type].left(share)) continue;
      const double net = wish(here, prices[type][share]).net;
      if (net <= best_net) continue;
      best_net = net;
      types[job] = type;
    }
    if (types[job] == kNothing) return std::nullopt;
    left[types[job]].take(share, options[job][types[job]].front().gpus);
  }
  return types;
}

}  // namespace dl::policy::elastic
