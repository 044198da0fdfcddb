// SPDX-License-Identifier: Apache-2.0
// Chooses the type of GPU for jobs that can use several, by prices at which no more GPUs of a type are wanted than
// there are.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/elastic/value.h"

namespace dl::policy::elastic {

// The options of each job on each type; empty for a job that is not admitted.
using AllOptions = std::vector<std::vector<std::vector<Option>>>;
// The price of one GPU, by type and share. Never negative, and in a share not below the price in the share above it.
using Prices = std::vector<std::vector<double>>;

// For any prices an upper bound on the value of all allocations of the admitted jobs: the price of all GPUs, plus for
// each job the most by which its value can exceed the price of the GPUs that it takes (weak duality).
double bound_of(const Problem& problem, const AllOptions& options, const Prices& prices);

// The type on which a job is worth most at these prices, and how much more than on the next best one.
struct Preference {
  int type = kNothing;
  double net = 0;     // its value there, less the price
  double margin = 0;  // net, less that on the next best type; infinite if there is no other
};
Preference preference(const Problem& problem, const AllOptions& options, const Prices& prices, int job);

// Lowers the bound by the subgradient method, which raises prices where more is wanted than there is. Starts at
// *prices, and leaves the best prices found there. Returns the bound.
double improve(const Problem& problem, const AllOptions& options, Prices* prices);

// By job: its type, or kNothing if it is not admitted. Jobs choose one after another, those with the greatest margin
// first: each the best type at these prices on which its smallest size still fits. Nothing if a job finds no room.
std::optional<std::vector<int>> types_at(const Problem& problem, const AllOptions& options, const Prices& prices);

}  // namespace dl::policy::elastic
