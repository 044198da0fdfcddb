// SPDX-License-Identifier: Apache-2.0
// The problem for one type of GPU, once it is known which jobs get GPUs of it: a multiple-choice knapsack with limits
// that nest. Each job gets one of its options.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/elastic/limits.h"
#include "slurm-plugin/policy/elastic/value.h"

namespace dl::policy::elastic {

struct Item {
  int job = 0;
  int share = 0;
  std::vector<Option> options;  // options_of(); not empty
  std::vector<int> line;        // envelope()
};

struct OneType {
  std::vector<Item> items;
  Limits limits;  // what is left once each item has its first option; nothing is negative
};

// By item: index of its option.
using Choices = std::vector<int>;

struct Greedy {
  Choices choices;
  // By share: what one more GPU would be worth to a job there; 0 where not all GPUs are taken. At these prices
  // bound_of() is the optimum of the relaxed problem, in which GPUs can be divided.
  std::vector<double> prices;
};

// Greedy: takes the steps of all envelopes in the order of gain per GPU. An item whose step does not fit gets the
// largest option that does, and no more steps. The value is below the optimum by at most one step's gain for each share
// whose limit is reached. O(n log n).
Greedy by_envelopes(const OneType& problem);

// Optimal, by dynamic programming over the tree of shares; nothing if that would take more than `work` steps (each an
// addition and a comparison, some 10^9 of them a second) or more than 400 MB of memory.
std::optional<Choices> by_programme(const OneType& problem, int64_t work);

double value_of(const OneType& problem, const Choices& choices);

}  // namespace dl::policy::elastic
