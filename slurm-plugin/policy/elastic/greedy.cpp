// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "slurm-plugin/policy/elastic/one_type.h"

namespace dl::policy::elastic {
namespace {

struct Step {
  double gain = 0;  // for each GPU
  int item = 0;
  int from = 0, to = 0;  // options
};

std::vector<Step> steps_of(const OneType& problem) {
  std::vector<Step> steps;
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const Item& item = problem.items[i];
    for (size_t at = 1; at < item.line.size(); ++at) {
      const Option& a = item.options[item.line[at - 1]];
      const Option& b = item.options[item.line[at]];
      steps.push_back({(b.value - a.value) / (b.gpus - a.gpus), static_cast<int>(i), item.line[at - 1], item.line[at]});
    }
  }
  // Those of one item are in order by themselves, since its gains fall.
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.gain > b.gain; });
  return steps;
}

// The optimum if GPUs could be divided takes steps in the same order, and the part of a step that fits. A share's
// price is the gain at which it, or a share above it, was full.
std::vector<double> prices_of(const OneType& problem, const std::vector<Step>& steps) {
  Limits left = problem.limits;
  std::vector<double> full_at(problem.limits.shares(), 0.0);
  std::vector<char> full(problem.limits.shares());
  for (const Step& step : steps) {
    const Item& item = problem.items[step.item];
    const int share = item.share;
    const int gpus = item.options[step.to].gpus - item.options[step.from].gpus;
    const int taken = std::min(gpus, left.left(share));
    left.take(share, taken);
    if (taken == gpus) continue;
    for (int at = share; at != kNothing; at = left.parent(at)) {
      if (left.left_of(at) > 0 || full[at]) continue;
      full[at] = 1;
      full_at[at] = step.gain;
    }
  }
  std::vector<double> prices(full_at.size());
  for (size_t i = 0; i < prices.size(); ++i) {
    const int parent = problem.limits.parent(static_cast<int>(i));
    prices[i] = std::max(full_at[i], parent == kNothing ? 0.0 : prices[parent]);
  }
  return prices;
}

}  // namespace

Greedy by_envelopes(const OneType& problem) {
  const std::vector<Step> steps = steps_of(problem);
  Greedy greedy;
  greedy.choices.assign(problem.items.size(), 0);
  greedy.prices = prices_of(problem, steps);
  Limits left = problem.limits;
  std::vector<char> stopped(problem.items.size());
  const auto move = [&](int item, int to) {
    const Item& it = problem.items[item];
    left.take(it.share, it.options[to].gpus - it.options[greedy.choices[item]].gpus);
    greedy.choices[item] = to;
  };
  for (const Step& step : steps) {
    if (stopped[step.item]) continue;
    const Item& item = problem.items[step.item];
    const int room = left.left(item.share);
    const int now = item.options[greedy.choices[step.item]].gpus;
    if (item.options[step.to].gpus - now <= room) {
      move(step.item, step.to);
      continue;
    }
    stopped[step.item] = 1;
    int best = greedy.choices[step.item];
    while (best + 1 < static_cast<int>(item.options.size()) && item.options[best + 1].gpus - now <= room) ++best;
    if (best != greedy.choices[step.item]) move(step.item, best);
  }
  return greedy;
}

double value_of(const OneType& problem, const Choices& choices) {
  double sum = 0;
  for (size_t i = 0; i < choices.size(); ++i) sum += problem.items[i].options[choices[i]].value;
  return sum;
}

}  // namespace dl::policy::elastic
