// SPDX-License-Identifier: Apache-2.0
// Whether several gangs fit at once on the nodes of one type, as GPUs become free and are taken again.
//
// Where each size of a learner is a multiple of the next smaller one it is enough to count places: a large learner
// takes as many places of a smaller size as fit into it, wherever it lies. Otherwise learners have to be packed: two of
// 3 GPUs and one of 2 have places on two nodes of 4, if these are counted size by size, and do not fit. Packing tries
// largest learners on the fullest nodes first, and where that fails, all ways there are, up to a number of steps.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/free_gpus.h"

namespace dl::policy {

// Learners of one size.
struct Need {
  int gpus_per_learner;
  int learners;
};

// Largest size first, each size once.
std::vector<Need> by_size(std::vector<Need> needs);
// Of by_size(): is each size a multiple of the next?
bool multiples(const std::vector<Need>& needs);

// Learners of several sizes on nodes of which nothing matters but how many have so many free GPUs.
class Packing {
 public:
  // *steps: what trying all ways may still cost, counted down.
  Packing(std::vector<Need> needs, int* steps) : needs_(by_size(std::move(needs))), steps_(*steps) {}

  // nodes[g]: how many nodes have g free GPUs. False, too, if the steps did not do to find out.
  bool fits(const std::vector<int>& nodes);

 private:
  bool fits_greedily(std::vector<int> nodes) const;
  bool fits_without_waste(std::vector<int> nodes) const;
  bool fits_somehow(const std::vector<int>& nodes);

  std::vector<Need> needs_;
  int& steps_;
  std::map<std::vector<int>, bool> known_;
};

// Steps of packing in one search for victims.
constexpr int kPackingSteps = 200'000;

// What can be done to the GPUs of one node.
struct Freed {
  int node;  // its place among those that were named to look_at()
  int gpus;
};

// Places of one size, and how many of them there have to be: as many as it and the larger ones need together.
struct Places {
  int size;
  int needed;
  int slots;  // that there are
};

class GangsRoom {
 public:
  // *steps: of packing, counted down.
  GangsRoom(const FreeGpus& free, int type, const std::vector<Need>& needs, int* steps);
  GangsRoom(const GangsRoom&) = delete;
  GangsRoom& operator=(const GangsRoom&) = delete;

  // The nodes that apply() may change; it names them by their places in this list.
  void look_at(const FreeGpus& free, const std::vector<int>& nodes) {
    for (const int node : nodes) free_.push_back(free.on(node));
  }
  const std::vector<Places>& places() const { return places_; }  // the largest size first
  bool enough();
  // False: packing was cut short, so that there may have been enough where enough() said no.
  bool exact() const { return !packed_ || steps_ > 0; }
  int on(int node) const { return free_[node]; }
  // The largest size of which places are missing, or just the largest where there are some of each; 0: all fit.
  int size_missing();
  void apply(const std::vector<Freed>& freed, int sign);

 private:
  bool enough_places() const;

  std::vector<Places> places_;
  std::vector<int> free_;
  // Only where sizes are no multiples of one another.
  bool packed_;
  int& steps_;
  Packing packing_;
  std::vector<int> nodes_;  // by free GPUs
};

// Places for learners of `need`, beside which all `others` fit, too, on nodes of the type. `spread`: on as many nodes
// as there are. Nothing if it was not found.
std::optional<std::vector<Part>> place_beside(const FreeGpus& free, int type, bool spread, const Need& need,
                                              const std::vector<Need>& others, int* steps);
// Do all of these fit?
bool all_fit(const FreeGpus& free, int type, const std::vector<Need>& needs, int* steps);

}  // namespace dl::policy
