// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/gangs_room.h"

#include <algorithm>
#include <utility>

namespace dl::policy {
namespace {

std::vector<int> nodes_by_free(const FreeGpus& free, int type) {
  std::vector<int> nodes;
  for (const int node : free.nodes_of(type)) {
    const auto gpus = static_cast<size_t>(std::max(0, free.on(node)));
    if (gpus >= nodes.size()) nodes.resize(gpus + 1);
    ++nodes[gpus];
  }
  return nodes;
}

// One way to use a node: how far it leads in the table of fits_somehow(), and the learners of the smallest size beside.
struct Way {
  size_t ahead;
  std::vector<int> learners;  // of all sizes but the smallest
  int smallest;
};

void add_ways(const std::vector<Need>& needs, const std::vector<size_t>& strides, size_t size, int gpus, Way* way,
              std::vector<Way>* ways) {
  if (size + 1 == needs.size()) {
    way->smallest = gpus / needs[size].gpus_per_learner;
    ways->push_back(*way);
    return;
  }
  const int most = std::min(needs[size].learners, gpus / needs[size].gpus_per_learner);
  for (int here = 0; here <= most; ++here) {
    way->learners[size] = here;
    add_ways(needs, strides, size + 1, gpus - here * needs[size].gpus_per_learner, way, ways);
    way->ahead += strides[size];
  }
  way->ahead -= strides[size] * static_cast<size_t>(most + 1);
  way->learners[size] = 0;
}

std::vector<Places> places_for(const FreeGpus& free, int type, const std::vector<Need>& needs) {
  std::vector<Places> places;
  for (size_t i = 0; i < needs.size(); ++i) {
    const int size = needs[i].gpus_per_learner;
    int needed = 0;
    for (size_t larger = 0; larger <= i; ++larger)
      needed += needs[larger].learners * (needs[larger].gpus_per_learner / size);
    places.push_back(Places{size, needed, free.slots(type, size)});
  }
  return places;
}

}  // namespace

std::vector<Need> by_size(std::vector<Need> needs) {
  std::sort(needs.begin(), needs.end(),
            [](const Need& a, const Need& b) { return a.gpus_per_learner > b.gpus_per_learner; });
  std::vector<Need> sizes;
  for (const Need& need : needs) {
    if (sizes.empty() || sizes.back().gpus_per_learner != need.gpus_per_learner)
      sizes.push_back(Need{need.gpus_per_learner, 0});
    sizes.back().learners += need.learners;
  }
  return sizes;
}

bool multiples(const std::vector<Need>& needs) {
  for (size_t i = 1; i < needs.size(); ++i)
    if (needs[i - 1].gpus_per_learner % needs[i].gpus_per_learner != 0) return false;
  return true;
}

bool Packing::fits(const std::vector<int>& nodes) {
  if (fits_greedily(nodes) || fits_without_waste(nodes)) return true;
  if (steps_ <= 0) return false;
  const auto known = known_.find(nodes);
  if (known != known_.end()) return known->second;
  const bool fits = fits_somehow(nodes);
  known_.emplace(nodes, fits);
  return fits;
}

bool Packing::fits_greedily(std::vector<int> nodes) const {
  for (const Need& need : needs_) {
    const auto size = static_cast<size_t>(need.gpus_per_learner);
    int left = need.learners;
    for (size_t gpus = size; gpus < nodes.size() && left > 0; ++gpus) {
      // A node takes as many as it holds before the next one is looked at.
      const int each = static_cast<int>(gpus / size);
      const int whole = std::min(nodes[gpus], left / each);
      nodes[gpus] -= whole;
      nodes[gpus % size] += whole;
      left -= whole * each;
      if (left == 0 || nodes[gpus] == 0) continue;
      --nodes[gpus];
      ++nodes[gpus - static_cast<size_t>(left) * size];
      left = 0;
    }
    if (left > 0) return false;
  }
  return true;
}

// Each learner where the least becomes of no use to learners of its size and smaller ones, of such nodes on the
// fullest.
bool Packing::fits_without_waste(std::vector<int> nodes) const {
  for (size_t first = 0; first < needs_.size(); ++first) {
    // used[g]: the most of g GPUs that such learners take.
    std::vector<size_t> used(nodes.size());
    for (size_t gpus = 1; gpus < nodes.size(); ++gpus)
      for (size_t i = first; i < needs_.size(); ++i)
        if (const auto size = static_cast<size_t>(needs_[i].gpus_per_learner); size <= gpus)
          used[gpus] = std::max(used[gpus], used[gpus - size] + size);
    const auto size = static_cast<size_t>(needs_[first].gpus_per_learner);
    for (int left = needs_[first].learners; left > 0;) {
      size_t best = 0;
      for (size_t gpus = size; gpus < nodes.size(); ++gpus)
        if (nodes[gpus] > 0 && (best == 0 || used[gpus] - used[gpus - size] < used[best] - used[best - size]))
          best = gpus;
      if (best == 0) return false;
      const int whole = std::min(nodes[best], left);
      nodes[best] -= whole;
      nodes[best - size] += whole;
      left -= whole;
    }
  }
  return true;
}

// Node after node: for each number of learners of all sizes but the smallest the most of the smallest beside them.
bool Packing::fits_somehow(const std::vector<int>& nodes) {
  std::vector<size_t> strides(needs_.size() - 1);  // of a table with a dimension for each of those sizes
  size_t cells = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = cells;
    cells *= static_cast<size_t>(needs_[i].learners) + 1;
    if (cells > static_cast<size_t>(steps_)) {
      steps_ = 0;
      return false;
    }
  }
  constexpr int kNever = -1;
  std::vector<int> most(cells, kNever);
  most[0] = 0;
  for (size_t gpus = 1; gpus < nodes.size(); ++gpus) {
    if (nodes[gpus] == 0) continue;
    std::vector<Way> ways;
    Way none{0, std::vector<int>(strides.size()), 0};
    add_ways(needs_, strides, 0, static_cast<int>(gpus), &none, &ways);
    const double cost = static_cast<double>(cells) * static_cast<double>(ways.size()) * nodes[gpus];
    if (cost > steps_) {
      steps_ = 0;
      return false;
    }
    steps_ -= static_cast<int>(cost);
    // From the end, so that a cell is read before this node has changed it.
    for (int node = 0; node < nodes[gpus]; ++node) {
      std::vector<int> placed;  // in the cell
      for (const Need& need : needs_) placed.push_back(need.learners);
      for (size_t cell = cells; cell-- > 0;) {
        int best = kNever;
        for (const Way& way : ways) {
          bool possible = true;
          for (size_t i = 0; i < strides.size() && possible; ++i) possible = way.learners[i] <= placed[i];
          if (possible && most[cell - way.ahead] != kNever)
            best = std::max(best, most[cell - way.ahead] + way.smallest);
        }
        most[cell] = best;
        for (size_t i = strides.size(); i-- > 0 && --placed[i] < 0;) placed[i] = needs_[i].learners;
      }
    }
  }
  return most[cells - 1] >= needs_.back().learners;
}

GangsRoom::GangsRoom(const FreeGpus& free, int type, const std::vector<Need>& needs, int* steps)
    : places_(places_for(free, type, by_size(needs))),
      packed_(!multiples(by_size(needs))),
      steps_(*steps),
      packing_(needs, steps) {
  if (packed_) nodes_ = nodes_by_free(free, type);
}

bool GangsRoom::enough_places() const {
  return std::all_of(places_.begin(), places_.end(), [](const Places& p) { return p.slots >= p.needed; });
}

bool GangsRoom::enough() {
  return enough_places() && (!packed_ || packing_.fits(nodes_));
}

int GangsRoom::size_missing() {
  for (const Places& places : places_)
    if (places.slots < places.needed) return places.size;
  return enough() ? 0 : places_.front().size;
}

void GangsRoom::apply(const std::vector<Freed>& all, int sign) {
  for (const Freed& freed : all) {
    const int before = free_[freed.node];
    const int after = before + sign * freed.gpus;
    free_[freed.node] = after;
    for (Places& places : places_) places.slots += after / places.size - before / places.size;
    if (!packed_) continue;
    if (static_cast<size_t>(std::max(0, after)) >= nodes_.size()) nodes_.resize(static_cast<size_t>(after) + 1);
    --nodes_[static_cast<size_t>(std::max(0, before))];
    ++nodes_[static_cast<size_t>(std::max(0, after))];
  }
}

bool all_fit(const FreeGpus& free, int type, const std::vector<Need>& needs, int* steps) {
  return GangsRoom(free, type, needs, steps).enough();
}

std::optional<std::vector<Part>> place_beside(const FreeGpus& free, int type, bool spread, const Need& need,
                                              const std::vector<Need>& others, int* steps) {
  const int size = need.gpus_per_learner;
  FreeGpus room = free;
  std::vector<int> learners(free.nodes_of(type).size());  // by place in that list
  std::vector<Need> left = others;
  left.push_back(need);
  for (int learner = 0; learner < need.learners; ++learner) {
    if (--left.back().learners == 0) left.pop_back();
    // Of nodes that have equally many free GPUs and learners of the job, trying one is enough.
    std::map<std::pair<int, int>, size_t> tries;
    for (size_t i = 0; i < learners.size(); ++i) {
      const int here = room.on(room.nodes_of(type)[i]);
      if (here < size) continue;
      tries.try_emplace(spread ? std::pair(learners[i], -here) : std::pair(learners[i] > 0 ? 0 : 1, here), i);
    }
    bool found = false;
    for (const auto& next : tries) {
      const int node = room.nodes_of(type)[next.second];
      room.add(node, -size);
      found = left.empty() || all_fit(room, type, left, steps);
      if (found) {
        ++learners[next.second];
        break;
      }
      room.add(node, size);
    }
    if (!found) return std::nullopt;
  }
  std::vector<Part> parts;
  for (size_t i = 0; i < learners.size(); ++i)
    if (learners[i] > 0) parts.push_back(Part{free.nodes_of(type)[i], learners[i]});
  return parts;
}

}  // namespace dl::policy
