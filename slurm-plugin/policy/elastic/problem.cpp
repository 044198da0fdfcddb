// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/elastic/problem.h"

#include <fmt/core.h>

#include <cmath>
#include <string>

namespace dl::policy::elastic {
namespace {

Error wrong(const std::string& what, double value, const std::string& allowed) {
  return Error{Errc::kInvalid, fmt::format("{} is {}; allowed: {}", what, value, allowed)};
}

bool between(double value, double low, double high) {
  return std::isfinite(value) && value >= low && value <= high;
}

Status check_share(const Problem& problem, size_t index) {
  const Share& share = problem.shares[index];
  if (share.parent < kNothing || share.parent >= static_cast<int>(index))
    return wrong(fmt::format("the parent of share {}", index), share.parent, "an earlier share, or -1");
  if (share.gpus.size() != static_cast<size_t>(problem.types))
    return wrong(fmt::format("the number of GPU types of share {}", index), static_cast<double>(share.gpus.size()),
                 fmt::format("{}, as there are types", problem.types));
  for (const int gpus : share.gpus)
    if (gpus < 0 || gpus > 100 * kMostGpusOfPoint)
      return wrong(fmt::format("a limit of share {}", index), gpus, "GPUs from 0 to 100,000,000");
  return {};
}

Status check_point(const Problem& problem, const Point& point, const std::string& of) {
  if (point.type < 0 || point.type >= problem.types)
    return wrong("the GPU type " + of, point.type, fmt::format("0 to {}", problem.types - 1));
  if (point.gpus < 1 || point.gpus > kMostGpusOfPoint) return wrong("the GPUs " + of, point.gpus, "1 to 1,000,000");
  if (point.nodes < 0 || point.nodes > point.gpus)
    return wrong("the nodes " + of, point.nodes, "0 (not known) to its GPUs");
  if (point.batch < 0) return wrong("the batch " + of, static_cast<double>(point.batch), "0 (not known) or more");
  if (!between(point.speed, 1e-12, kMostValue)) return wrong("the speed " + of, point.speed, "more than 0, to 1e12");
  return {};
}

Status check_job(const Problem& problem, size_t index) {
  const Job& job = problem.jobs[index];
  const std::string of = fmt::format("of job {}", index);
  if (job.share < 0 || job.share >= static_cast<int>(problem.shares.size()))
    return wrong("the share " + of, job.share, "one of the shares");
  if (!between(job.weight, 1e-12, kMostValue)) return wrong("the weight " + of, job.weight, "more than 0, to 1e12");
  if (job.points.empty() || job.points.size() > static_cast<size_t>(kMostPointsOfJob))
    return wrong("the number of sizes " + of, static_cast<double>(job.points.size()),
                 fmt::format("1 to {}", kMostPointsOfJob));
  for (const Point& point : job.points) DL_TRY(check_point(problem, point, "of a size " + of));
  if (job.now < kNothing || job.now >= static_cast<int>(job.points.size()))
    return wrong("the present size " + of, job.now, "one of its sizes, or -1: it waits");
  if (!between(job.age_s, 0, kMostValue)) return wrong("the age " + of, job.age_s, "0 to 1e12 seconds");
  if (!between(job.restart_s, 0, kMostValue))
    return wrong("the cost of a restart " + of, job.restart_s, "0 to 1e12 seconds");
  if (!between(job.left_s, 0, kMostValue)) return wrong("the time left " + of, job.left_s, "0 to 1e12 seconds");
  if (!between(job.waited_s, 0, kMostValue)) return wrong("the time waited " + of, job.waited_s, "0 to 1e12 seconds");
  if (job.restarts < 0) return wrong("the number of restarts " + of, job.restarts, "0 or more");
  return {};
}

}  // namespace

Status check(const Problem& problem) {
  if (problem.types < 1 || problem.types > kMostTypes)
    return wrong("the number of GPU types", problem.types, fmt::format("1 to {}", kMostTypes));
  if (problem.shares.empty()) return Error{Errc::kInvalid, "there is no share, so no job could get anything"};
  if (problem.shares.size() > kMostShares)
    return wrong("the number of shares", static_cast<double>(problem.shares.size()),
                 fmt::format("at most {}", kMostShares));
  std::vector<int> depth(problem.shares.size(), 1);
  for (size_t i = 0; i < problem.shares.size(); ++i) {
    DL_TRY(check_share(problem, i));
    if (const int parent = problem.shares[i].parent; parent != kNothing) depth[i] = depth[parent] + 1;
    if (depth[i] > kDeepest)
      return wrong(fmt::format("the depth of share {}", i), depth[i],
                   fmt::format("at most {} in one another", kDeepest));
  }
  for (size_t i = 0; i < problem.jobs.size(); ++i) DL_TRY(check_job(problem, i));
  if (!between(problem.least_gain, 0, 1)) return wrong("the least gain", problem.least_gain, "0 to 1");
  if (!between(problem.gap, 0, 1)) return wrong("the gap", problem.gap, "0 to 1");
  if (problem.work < 0) return wrong("the work", static_cast<double>(problem.work), "0 steps or more");
  return {};
}

}  // namespace dl::policy::elastic
