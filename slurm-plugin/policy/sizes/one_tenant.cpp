// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/sizes/one_tenant.h"

#include <algorithm>

#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {
namespace {

// How often sizes are chosen anew because some found no nodes, or more nodes than was assumed.
constexpr int kMostTries = 16;

bool allows(const Job& job, int type) {
  return job.type == kAnyType || job.type == type;
}

class OneTenant {
 public:
  OneTenant(const ClusterState& state, const TenantSizes& tenant, const SizeOptions& options)
      : state_(state), tenant_(tenant) {
    problem_.objective = options.objective;
    problem_.least_gain = options.least_gain;
    problem_.work = options.work;
    problem_.types = state.type_count();
    problem_.shares.push_back({elastic::kNothing, tenant.gpus});
    largest_.assign(state.types.size(), 0);
    for (const Node& node : state.nodes)
      if (node.usable) largest_[node.type] = std::max(largest_[node.type], node.gpus);
    for (const Member& member : tenant.members) add(member);
  }

  std::vector<Resize> solve(FreeGpus* free) {
    for (int tries = 0; tries < kMostTries; ++tries) {
      const elastic::Allocation answer = elastic::optimise(problem_);
      FreeGpus room = *free;
      const auto placed = place_all(answer.points, &room);
      if (!placed) continue;
      *free = room;
      return *placed;
    }
    return {};
  }

 private:
  const Job& job_of(size_t member) const { return state_.jobs[tenant_.members[member].job]; }

  // The fewest nodes that so many learners can be on.
  int fewest_nodes(const Job& job, int type, int learners) const {
    const int most = std::max(1, largest_[type] / job.gpus_per_learner);
    return (learners + most - 1) / most;
  }

  // The job's numbers of learners on this type, rising.
  static std::vector<int> sizes_of(const Member& member, const Job& job, int type) {
    if (member.speeds == nullptr) return {job.min_learners};
    std::vector<int> sizes;
    for (const SizeSpeed& speed : member.speeds->speeds)
      if (speed.type == type && speed.learners >= job.min_learners && speed.learners <= job.max_learners)
        sizes.push_back(speed.learners);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
  }

  // The fastest speeds on so many nodes, by batch: of each batch that of the next larger number of nodes which is
  // listed, else that of the most.
  static std::vector<SizeSpeed> on_nodes(const JobSpeeds& known, int type, int learners, int nodes) {
    std::vector<SizeSpeed> found;
    for (const SizeSpeed& speed : known.speeds) {
      if (speed.type != type || speed.learners != learners) continue;
      const auto same =
          std::find_if(found.begin(), found.end(), [&](const SizeSpeed& s) { return s.batch == speed.batch; });
      if (same == found.end()) {
        found.push_back(speed);
        continue;
      }
      const bool enough = speed.nodes >= nodes;
      const bool was_enough = same->nodes >= nodes;
      if (enough != was_enough ? enough : enough ? speed.nodes < same->nodes : speed.nodes > same->nodes) *same = speed;
    }
    return found;
  }

  void add(const Member& member) {
    const Job& job = state_.jobs[member.job];
    elastic::Job one;
    const bool placed = !member.parts.empty();
    const int now = learners_of(member.parts);
    for (int type = 0; type < problem_.types; ++type) {
      if (placed ? type != member.type : !allows(job, type)) continue;
      for (const int learners : sizes_of(member, job, type)) {
        const bool is_now = placed && learners == now;
        const int nodes = is_now ? static_cast<int>(member.parts.size()) : fewest_nodes(job, type, learners);
        add_size(member, type, learners, nodes, is_now, &one);
      }
    }
    if (one.points.empty()) one.points = {never()};
    one.waited_s = std::max<double>(0, static_cast<double>((job.running ? job.start_s : state_.now_s) - job.submit_s));
    if (member.speeds != nullptr) {
      one.weight = member.speeds->weight;
      one.left_s = member.speeds->left_s;
      // A job that starts now loses nothing if it starts at another size.
      one.age_s = member.running ? member.speeds->age_s : 1;
      one.restart_s = member.running ? static_cast<double>(std::min(job.restart_s, state_.most_restart_s)) : 0;
      one.restarts = member.running ? member.speeds->restarts : 0;
    }
    problem_.jobs.push_back(std::move(one));
  }

  void add_size(const Member& member, int type, int learners, int nodes, bool is_now, elastic::Job* one) {
    const int gpus = learners * state_.jobs[member.job].gpus_per_learner;
    if (member.speeds == nullptr) {
      one->points.push_back({type, gpus, nodes, 0, 1});
      return;
    }
    for (const SizeSpeed& speed : on_nodes(*member.speeds, type, learners, nodes)) {
      const bool same_batch = !member.running || speed.batch == member.speeds->batch;
      if (is_now && one->now == elastic::kNothing && same_batch) one->now = static_cast<int>(one->points.size());
      one->points.push_back({type, gpus, nodes, speed.batch, speed.speed});
    }
  }

  // Nothing: a size found no nodes, or more of them than was assumed; the problem knows that now.
  std::optional<std::vector<Resize>> place_all(const std::vector<int>& points, FreeGpus* room) {
    std::vector<Resize> resizes;
    std::vector<size_t> larger;  // members that need room, after all others have given theirs up
    for (size_t i = 0; i < points.size(); ++i) {
      const Member& member = tenant_.members[i];
      const elastic::Job& asked = problem_.jobs[i];
      if (points[i] == asked.now || points[i] == elastic::kNothing) continue;
      const elastic::Point& point = asked.points[points[i]];
      const int learners = point.gpus / job_of(i).gpus_per_learner;
      const int now = learners_of(member.parts);
      if (learners > now) {
        larger.push_back(i);
        continue;
      }
      std::vector<Part> parts = parts_after_shrink(member.parts, learners);
      if (!fast_enough(i, points[i], static_cast<int>(parts.size()))) return std::nullopt;
      room->give(member.parts, job_of(i).gpus_per_learner);
      room->take(parts, job_of(i).gpus_per_learner);
      resizes.push_back({member.job, member.type, std::move(parts), point.batch, member.starts});
    }
    // The largest first: they find it hardest.
    std::stable_sort(larger.begin(), larger.end(), [&](size_t a, size_t b) {
      return problem_.jobs[a].points[points[a]].gpus > problem_.jobs[b].points[points[b]].gpus;
    });
    for (const size_t i : larger) {
      auto placed = enlarge(i, points[i], room);
      if (!placed) return std::nullopt;
      resizes.push_back(std::move(*placed));
    }
    std::sort(resizes.begin(), resizes.end(), [](const Resize& a, const Resize& b) { return a.job < b.job; });
    return resizes;
  }

  std::optional<Resize> enlarge(size_t index, int at, FreeGpus* room) {
    const Member& member = tenant_.members[index];
    const Job& job = job_of(index);
    const elastic::Point point = problem_.jobs[index].points[at];
    const int learners = point.gpus / job.gpus_per_learner;
    FreeGpus trial = *room;
    std::optional<std::vector<Part>> parts;
    if (member.running) {
      parts = grown(member, job, learners, &trial);
    } else {
      trial.give(member.parts, job.gpus_per_learner);
      parts = place(job.placement, trial, point.type, job.gpus_per_learner, learners);
      if (parts) trial.take(*parts, job.gpus_per_learner);
    }
    if (!parts) {
      forget(index, point);
      return std::nullopt;
    }
    if (!fast_enough(index, at, static_cast<int>(parts->size()))) return std::nullopt;
    *room = trial;
    return Resize{member.job, point.type, std::move(*parts), point.batch, !member.running};
  }

  // A running job keeps its learners where they are; further ones go where it is already, then to the fullest nodes
  // that hold the most of them.
  std::optional<std::vector<Part>> grown(const Member& member, const Job& job, int learners, FreeGpus* room) const {
    std::vector<Part> parts = member.parts;
    const int size = job.gpus_per_learner;
    int more = learners - learners_of(parts);
    const auto put = [&](Part* part, int count) {
      part->learners += count;
      more -= count;
      room->add(part->node, -count * size);
    };
    for (Part& part : parts) put(&part, std::min(more, room->on(part.node) / size));
    while (more > 0) {
      int best = -1;
      int most = 0;
      for (const int node : room->nodes_of(member.type)) {
        const int fits = std::min(more, room->on(node) / size);
        if (fits > most || (fits > 0 && fits == most && room->on(node) < room->on(best))) {
          best = node;
          most = fits;
        }
      }
      if (best < 0) return std::nullopt;
      Part part{best, 0};
      put(&part, most);
      parts.push_back(part);
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.node < b.node; });
    return parts;
  }

  // A size that does not fit, so that the job waits.
  elastic::Point never() const { return {0, problem_.shares[0].gpus[0] + 1, 0, 0, 1}; }

  // There is no room for this size now.
  void forget(size_t index, const elastic::Point& point) {
    elastic::Job& job = problem_.jobs[index];
    std::vector<elastic::Point> kept;
    int now = elastic::kNothing;
    for (size_t i = 0; i < job.points.size(); ++i) {
      const elastic::Point& at = job.points[i];
      const bool is_now = static_cast<int>(i) == job.now;
      if (!is_now && at.type == point.type && at.gpus >= point.gpus) continue;
      if (is_now) now = static_cast<int>(kept.size());
      kept.push_back(at);
    }
    if (kept.empty()) kept = {never()};
    job.points = std::move(kept);
    job.now = now;
  }

  // Is it as fast on so many nodes as was assumed? If not, the problem gets the speed that it has there.
  bool fast_enough(size_t index, int at, int nodes) {
    const Member& member = tenant_.members[index];
    elastic::Point& point = problem_.jobs[index].points[at];
    if (member.speeds == nullptr || nodes <= point.nodes) return true;
    const int learners = point.gpus / job_of(index).gpus_per_learner;
    for (const SizeSpeed& speed : on_nodes(*member.speeds, point.type, learners, nodes)) {
      if (speed.batch != point.batch) continue;
      const bool same = speed.speed >= point.speed;
      point.speed = speed.speed;
      point.nodes = nodes;
      return same;
    }
    return true;
  }

  const ClusterState& state_;
  const TenantSizes& tenant_;
  std::vector<int> largest_;  // by type: GPUs of the largest node on which something may start
  elastic::Problem problem_;
};

}  // namespace

std::vector<Resize> sizes_of(const ClusterState& state, const TenantSizes& tenant, const SizeOptions& options,
                             FreeGpus* free) {
  return OneTenant(state, tenant, options).solve(free);
}

}  // namespace dl::policy
