// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/room.h"

#include <fmt/core.h>

namespace dl {
namespace {

// For how many learners the GPUs of all nodes suffice. -1: dl.toml does not say; 0: no node has enough GPUs for one.
int64_t most_learners(const GpuRequest& gpus, const SiteConfig& site) {
  if (site.node_counts.empty()) return -1;
  int64_t learners = 0;
  bool listed = false;
  for (const auto& [type, count] : site.node_counts) {
    if (!gpus.type.empty() && gpus.type != type) continue;
    const auto typed = site.gpus_per_node_by_type.find(type);
    const int there = typed != site.gpus_per_node_by_type.end() ? typed->second : site.gpus_per_node;
    if (there <= 0) return -1;
    listed = true;
    learners += int64_t{count} * (there / gpus.count);
  }
  // A type of GPU that dl.toml does not list may still exist in Slurm.
  return listed ? learners : -1;
}

Status refused_for(const JobRequest& request, int64_t there, const char* source) {
  return Error{
      Errc::kConflict,
      fmt::format("--dl-learners={}: all nodes together have GPUs for {} learner{} with {} GPU{} each ({}), so the job "
                  "would never start; allowed: at most {}",
                  request.learners->min, there, there == 1 ? "" : "s", request.gpus->count,
                  request.gpus->count == 1 ? "" : "s", source, there)};
}

bool needs_gpus(const JobRequest& request) {
  return request.gpus && request.gpus->count > 0 && request.learners;
}

}  // namespace

Status check_room(const JobRequest& request, const SiteConfig& site) {
  if (!needs_gpus(request)) return {};
  const int64_t there = most_learners(*request.gpus, site);
  if (there < 0 || request.learners->min <= there) return {};
  if (there == 0)
    return Error{
        Errc::kConflict,
        fmt::format("--dl-gpus={}: no node has as many GPUs ([nodes] in dl.toml), so the job would never start; "
                    "allowed: fewer GPUs for each learner",
                    request.gpus->count)};
  return refused_for(request, there, "[nodes.counts] in dl.toml");
}

Status check_room(const JobRequest& request, const NodeLines& lines) {
  if (!needs_gpus(request)) return {};
  const GpuRequest& gpus = *request.gpus;
  const int64_t there = most_learners(lines, gpus.count, gpus.type);
  if (there < 0 || request.learners->min <= there) return {};
  if (there == 0) {
    const int64_t largest = largest_node(lines, gpus.type);
    const std::string asked = gpus.type.empty() ? "" : gpus.type + ":";
    return Error{
        Errc::kConflict,
        fmt::format("--dl-gpus={}{}: no node has as many GPUs, the largest has {} (NodeName in slurm.conf), so "
                    "the job would never start; allowed: at most {} for each learner",
                    asked, gpus.count, largest, largest)};
  }
  return refused_for(request, there, "NodeName in slurm.conf");
}

}  // namespace dl
