// SPDX-License-Identifier: Apache-2.0
// Decides whether several gangs fit at once on the nodes of one type, as GPUs become free and are taken again.
//
// Where each size of a learner is a multiple of the next smaller one it is enough to count places: a large learner
// takes as many places of a smaller size as fit into it, wherever it lies. Otherwise learners have to be packed: two of
// 3 GPUs and one of 2 have places on two nodes of 4, if these are counted size by size, and do not fit. Packing first
// puts the largest learners on the fullest nodes. If that fails, it tries all other ways, up to a number of steps.
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
// Whether each size is a multiple of the next one. `needs`: in the order of by_size().
bool multiples(const std::vector<Need>& needs);

// Packs learners of several sizes onto nodes. All that it knows of the nodes is how many have each number of free GPUs.
class Packing {
 public:
  // *steps: how many steps trying all ways may still take; counted down.
  Packing(std::vector<Need> needs, int* steps) : needs_(by_size(std::move(needs))), steps_(*steps) {}

  // nodes[g]: how many nodes have g free GPUs. Also false if the steps ran out before an answer was found.
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

// GPUs of one node that apply() makes free, or takes again.
struct Freed {
  int node;  // its place among those that were named to look_at()
  int gpus;
};

// Places for learners of one size. As many are needed as learners of this size and of all larger ones take together.
struct Places {
  int size;
  int needed;
  int slots;  // how many there are now
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
  // False: packing ran out of steps, so that there may be enough although enough() said no.
  bool exact() const { return !packed_ || steps_ > 0; }
  int on(int node) const { return free_[node]; }
  // The largest size that lacks places. If none does, but the learners do not fit together: the largest size of all. 0:
  // all fit.
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

// Finds nodes of the type for the learners of `need`, so that all `others` still fit beside them. `spread`: on as many
// nodes as possible. Nothing if no such place was found.
std::optional<std::vector<Part>> place_beside(const FreeGpus& free, int type, bool spread, const Need& need,
                                              const std::vector<Need>& others, int* steps);
// Whether all of these fit.
bool all_fit(const FreeGpus& free, int type, const std::vector<Need>& needs, int* steps);

}  // namespace dl::policy
