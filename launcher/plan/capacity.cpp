// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/capacity.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "common/base/count.h"

namespace dl::plan {
namespace {

constexpr int kUnlimited = INT_MAX;

int gpu_slots(const Node& node, int gpus_per_learner) {
  return gpus_per_learner == 0 || node.gpus < 0 ? kUnlimited : node.gpus / gpus_per_learner;
}

int task_slots(const Allocation& allocation, const Node& node) {
  if (allocation.source == Allocation::Source::kLocal) return kUnlimited;  // a workstation belongs to its user
  if (node.tasks > 0) return std::max(0, node.tasks - node.taken_tasks);
  if (node.cpus == 0) return kUnlimited;
  return std::max(0, node.cpus - node.taken_cpus) / std::max(1, allocation.cpus_per_task);
}

int64_t sum(const std::vector<int>& values) {
  int64_t total = 0;
  for (const int value : values) total += value;
  return total;
}

Error too_few_gpus(const Allocation& allocation, const LearnerRange& range, int gpus_per_learner, int64_t slots) {
  int64_t gpus = 0;
  bool shared = false;
  for (const Node& node : allocation.nodes) {
    gpus += node.gpus;
    shared = shared || !node.taken.empty() || node.taken_tasks > 0;
  }
  const std::string needs = "needs " + count_text(range.min, "learner") + " x " + count_text(gpus_per_learner, "GPU");
  if (allocation.source == Allocation::Source::kLocal)
    return Error{Errc::kConflict,
                 needs + " but this machine has " + count_text(gpus, "GPU") + "; allowed: --gpus=0, or fewer learners"};
  std::string have =
      count_text(gpus, "GPU") + " on " + count_text(static_cast<int64_t>(allocation.nodes.size()), "node");
  if (gpus >= static_cast<int64_t>(range.min) * gpus_per_learner)
    have += ", which hold no more than " + count_text(slots, "whole learner");
  // They end, and then there are more: the user need not change anything.
  if (shared) return Error{Errc::kConflict, needs + ", and other dlruns of the job leave " + have};
  return Error{Errc::kConflict,
               needs + " but the allocation has " + have +
                   "; allowed: fewer learners, fewer GPUs for each (--gpus), or a job with more of them (sbatch "
                   "--dl-gpus or --gpus)"};
}

// The CPUs of a node for so many learners that leave GPUs or tasks of it to other runs of the job: the same share as of
// the GPUs or tasks. CPUs that other runs have taken are not given out again, as long as any are left.
int fair_cpus(const Node& node, int learners, int gpus_per_learner) {
  const int all = node.gpus + static_cast<int>(node.taken.size());
  const int gpus = learners * gpus_per_learner;
  int cpus = node.cpus;
  if (gpus > 0 && gpus < all)
    cpus = std::max(1, cpus * gpus / all);
  else if (gpus == 0 && all <= 0 && learners < node.tasks)
    cpus = std::max(1, cpus * learners / node.tasks);
  const int left = node.cpus - node.taken_cpus;
  return left > 0 ? std::min(cpus, left) : cpus;
}

bool shares_nodes(const Allocation& allocation, const std::vector<int>& count, int gpus_per_learner) {
  for (size_t i = 0; i < count.size(); ++i)
    if (count[i] > 0 && fair_cpus(allocation.nodes[i], count[i], gpus_per_learner) < allocation.nodes[i].cpus)
      return true;
  return false;
}

}  // namespace

Result<std::optional<LearnerRange>> learners_by_gpus(const Allocation& allocation, int gpus_per_learner) {
  int64_t gpus = 0, learners = 0;
  for (const Node& node : allocation.nodes) {
    if (node.gpus <= 0) continue;
    gpus += node.gpus;
    if (gpus_per_learner > 0) learners += node.gpus / gpus_per_learner;
  }
  if (gpus == 0 || gpus_per_learner == 0) return std::optional<LearnerRange>();
  if (learners == 0)
    return Error{Errc::kConflict, "--learners auto: no node has " + count_text(gpus_per_learner, "GPU") +
                                      ", as --gpus asks for each learner; there " + (gpus == 1 ? "is " : "are ") +
                                      count_text(gpus, "GPU") + " on " +
                                      count_text(static_cast<int64_t>(allocation.nodes.size()), "node")};
  const int count = static_cast<int>(std::min<int64_t>(learners, kMaxLearners));
  return std::optional<LearnerRange>(LearnerRange{count, count});
}

std::string why_no_gpus(const Allocation& allocation, bool not_wanted) {
  const auto& nodes = allocation.nodes;
  if (not_wanted) return "the learners are to have no GPUs";
  if (std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return !node.taken.empty(); }))
    return "other dlruns of the job use its GPUs";
  const bool unknown = std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.gpus < 0; });
  return unknown ? "it is not known how many GPUs there are here" : "there are no GPUs here";
}

Result<Capacity> find_capacity(const Allocation& allocation, const LearnerRange& range, int gpus_per_learner,
                               int servers) {
  std::vector<int> hard;    // limited by GPUs
  std::vector<int> wanted;  // limited by GPUs and tasks
  for (const Node& node : allocation.nodes) {
    hard.push_back(gpu_slots(node, gpus_per_learner));
    wanted.push_back(std::min(hard.back(), task_slots(allocation, node)));
  }
  if (sum(hard) < range.min) return too_few_gpus(allocation, range, gpus_per_learner, sum(hard));

  Capacity capacity;
  const int64_t for_learners = sum(wanted) - (gpus_per_learner == 0 ? servers : 0);
  if (for_learners >= range.min) {
    capacity.learners = static_cast<int>(std::min<int64_t>(range.max, for_learners));
    capacity.per_node = std::move(wanted);
    return capacity;
  }
  // More learners are asked for than Slurm counts tasks: the surplus is spread evenly, as far as the GPUs allow.
  capacity.learners = range.min;
  capacity.overcommit = true;
  const int nodes = static_cast<int>(allocation.nodes.size());
  int level = (range.min + nodes - 1) / nodes;
  for (;; level = std::min(level * 2, kUnlimited / 2)) {
    capacity.per_node.clear();
    for (const int slots : hard) capacity.per_node.push_back(std::min(slots, level));
    if (sum(capacity.per_node) >= range.min) return capacity;
  }
}

std::vector<int> place_servers(const Capacity& capacity, int servers, std::vector<int>* on_node) {
  std::vector<int> nodes, here(on_node->size(), 0);
  for (int server = 0; server < servers; ++server) {
    // First choice: the node with a free place that runs the least. If all are full: the one with the fewest added
    // servers.
    const auto crowding = [&](size_t n) {
      const bool full = (*on_node)[n] >= capacity.per_node[n];
      return std::make_pair(full, full ? here[n] : (*on_node)[n]);
    };
    size_t best = on_node->size();
    for (size_t n = 0; n < on_node->size(); ++n) {
      if ((*on_node)[n] == 0 && crowding(n).first) continue;
      if (best == on_node->size() || crowding(n) < crowding(best)) best = n;
    }
    nodes.push_back(static_cast<int>(best));
    ++(*on_node)[best];
    ++here[best];
  }
  return nodes;
}

bool is_overcommitted(const Allocation& allocation, const std::vector<int>& on_node) {
  for (size_t n = 0; n < on_node.size(); ++n)
    if (on_node[n] > task_slots(allocation, allocation.nodes[n])) return true;
  return false;
}

int find_cpus_per_learner(const Allocation& allocation, const std::vector<int>& count, int gpus_per_learner) {
  const bool local = allocation.source == Allocation::Source::kLocal;
  if (allocation.cpus_per_task > 0 && !shares_nodes(allocation, count, gpus_per_learner))
    return allocation.cpus_per_task;
  int least = allocation.cpus_per_task;
  for (size_t i = 0; i < count.size(); ++i) {
    // A single learner on a workstation: the framework's own default is the better guess.
    if (count[i] == 0 || (local && count[i] == 1)) continue;
    if (allocation.nodes[i].cpus == 0) return 0;
    const int here = std::max(1, fair_cpus(allocation.nodes[i], count[i], gpus_per_learner) / count[i]);
    least = least == 0 ? here : std::min(least, here);
  }
  return least;
}

}  // namespace dl::plan
