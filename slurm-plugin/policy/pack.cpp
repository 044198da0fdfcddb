// SPDX-License-Identifier: Apache-2.0
// Pack: fewest nodes, then fewest leaf switches, then the best fit.
//
// The fewest nodes are found by taking those with the most room. Any set of switches whose roomiest nodes hold the job
// with that number of nodes will do; sets are tried by size, all of a size as long as they are not too many to try.
#include <algorithm>
#include <cstdint>
#include <map>

#include "slurm-plugin/policy/placement.h"

namespace dl::policy {
namespace {

struct Room {
  int node;
  int slots;  // learners that fit, at most the job's
  int free;
};

bool roomier(const Room& a, const Room& b) {
  if (a.slots != b.slots) return a.slots > b.slots;
  if (a.free != b.free) return a.free < b.free;  // as much room with less left over
  return a.node < b.node;
}

constexpr int kMostSetsOfSwitches = 5000;

int sum_of_first(const std::vector<Room>& rooms, size_t count) {
  int sum = 0;
  for (size_t i = 0; i < rooms.size() && i < count; ++i) sum += rooms[i].slots;
  return sum;
}

std::vector<Room> merged(const std::vector<std::vector<Room>>& switches, const std::vector<int>& chosen) {
  std::vector<Room> all;
  for (const int index : chosen) all.insert(all.end(), switches[index].begin(), switches[index].end());
  std::sort(all.begin(), all.end(), roomier);
  return all;
}

int free_in(const std::vector<Room>& rooms) {
  int sum = 0;
  for (const Room& room : rooms) sum += room.free;
  return sum;
}

// The rooms of the best set of `size` switches that holds the job on `nodes` nodes; empty if none does.
std::vector<Room> best_set(const std::vector<std::vector<Room>>& switches, size_t size, size_t nodes, int learners) {
  std::vector<int> chosen(size);
  for (size_t i = 0; i < size; ++i) chosen[i] = static_cast<int>(i);
  std::vector<Room> best;
  int best_free = 0;
  const int last = static_cast<int>(switches.size());
  while (true) {
    std::vector<Room> rooms = merged(switches, chosen);
    if (sum_of_first(rooms, nodes) >= learners) {
      const int free = free_in(rooms);
      if (best.empty() || free < best_free) {
        best_free = free;
        best = std::move(rooms);
      }
    }
    size_t i = size;
    while (i > 0 && chosen[i - 1] == last - static_cast<int>(size - i) - 1) --i;
    if (i == 0) return best;
    ++chosen[i - 1];
    for (size_t k = i; k < size; ++k) chosen[k] = chosen[k - 1] + 1;
  }
}

// Adds the switch that helps most until the job fits: for clusters with too many sets to try them all.
std::vector<Room> greedy_set(const std::vector<std::vector<Room>>& switches, size_t nodes, int learners) {
  std::vector<int> chosen;
  std::vector<Room> rooms;
  while (sum_of_first(rooms, nodes) < learners) {
    int best = -1;
    int best_sum = -1;
    for (int i = 0; i < static_cast<int>(switches.size()); ++i) {
      if (std::find(chosen.begin(), chosen.end(), i) != chosen.end()) continue;
      std::vector<int> with = chosen;
      with.push_back(i);
      const int sum = sum_of_first(merged(switches, with), nodes);
      if (sum > best_sum) {
        best_sum = sum;
        best = i;
      }
    }
    chosen.push_back(best);
    rooms = merged(switches, chosen);
  }
  return rooms;
}

std::vector<Room> fewest_switches(const std::vector<std::vector<Room>>& switches, size_t nodes, int learners) {
  double sets = 1;
  for (size_t size = 1; size <= switches.size(); ++size) {
    sets = sets * static_cast<double>(switches.size() - size + 1) / static_cast<double>(size);
    if (sets > kMostSetsOfSwitches) return greedy_set(switches, nodes, learners);
    std::vector<Room> rooms = best_set(switches, size, nodes, learners);
    if (!rooms.empty()) return rooms;
  }
  return {};
}

}  // namespace

std::optional<std::vector<Part>> place_pack(const FreeGpus& free, int type, int gpus_per_learner, int learners) {
  std::vector<Room> rooms;
  const Room* one = nullptr;
  Room tightest{};
  const int64_t whole = int64_t{learners} * gpus_per_learner;
  for (const int node : free.nodes_of(type)) {
    const int here = free.on(node);
    if (here >= whole && (!one || here < tightest.free)) {
      tightest = Room{node, learners, here};
      one = &tightest;
      if (here == whole) break;  // no other fits better
    }
    if (!one && here >= gpus_per_learner)
      rooms.push_back(Room{node, std::min(here / gpus_per_learner, learners), here});
  }
  if (one) return std::vector<Part>{Part{one->node, learners}};
  std::sort(rooms.begin(), rooms.end(), roomier);
  size_t nodes = 0;
  for (int sum = 0; sum < learners; ++nodes) {
    if (nodes == rooms.size()) return std::nullopt;
    sum += rooms[nodes].slots;
  }
  std::map<int, std::vector<Room>> by_switch;
  for (const Room& room : rooms) by_switch[free.node(room.node).leaf_switch].push_back(room);
  std::vector<std::vector<Room>> switches;
  switches.reserve(by_switch.size());
  for (auto& entry : by_switch) switches.push_back(std::move(entry.second));
  rooms = fewest_switches(switches, nodes, learners);

  std::vector<Part> parts;
  int left = learners;
  for (size_t i = 0; i + 1 < nodes; ++i) {
    parts.push_back(Part{rooms[i].node, std::min(left, rooms[i].slots)});
    left -= parts.back().learners;
  }
  // The last node is the one with the least room that is enough.
  const Room* last = nullptr;
  for (size_t i = nodes - 1; i < rooms.size(); ++i) {
    if (rooms[i].slots >= left && (!last || rooms[i].free < last->free)) last = &rooms[i];
  }
  if (!last || left < 1) return std::nullopt;
  parts.push_back(Part{last->node, left});
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.node < b.node; });
  return parts;
}

}  // namespace dl::policy
