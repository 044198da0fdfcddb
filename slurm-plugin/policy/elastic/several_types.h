// SPDX-License-Identifier: Apache-2.0
// Which type of GPU for which job, where jobs can use several: by prices at which no more GPUs of a type are wanted
// than there are.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/elastic/value.h"

namespace dl::policy::elastic {

// By job and type; nothing of a job that is not admitted.
using AllOptions = std::vector<std::vector<std::vector<Option>>>;
// Of one more GPU, by type and share, never negative: that of a share is not below that of the share above it.
using Prices = std::vector<std::vector<double>>;

// What the whole costs less than nothing of: with any prices no allocation of the admitted jobs is worth more than the
// prices of all GPUs and the most that each job is worth less the price of its own (weak duality).
double bound_of(const Problem& problem, const AllOptions& options, const Prices& prices);

// The type on which a job is worth most at these prices, and how much more than on the next best one.
struct Preference {
  int type = kNothing;
  double net = 0;     // what it is worth there, less the price
  double margin = 0;  // infinite if there is no other
};
Preference preference(const Problem& problem, const AllOptions& options, const Prices& prices, int job);

// Lowers the bound by moving prices towards what is wanted (subgradient method), from `prices` on, which become the
// best ones found. Returns the bound.
double improve(const Problem& problem, const AllOptions& options, Prices* prices);

// By job: each on the type that it prefers at these prices, those with the most to lose first, as long as the smallest
// sizes of all fit. Nothing if one of them found no room.
std::optional<std::vector<int>> types_at(const Problem& problem, const AllOptions& options, const Prices& prices);

}  // namespace dl::policy::elastic
