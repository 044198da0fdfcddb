// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_request.h"

#include <fmt/core.h>

namespace dl {
namespace {

// Slurm counts tasks and CPUs in 32 bits. No site has more GPUs than this, so a larger number is a typing mistake.
constexpr int64_t kMaxGpusOfJob = 1000000;

}  // namespace

Status check_request(const JobRequest& request) {
  if (request.gpus && request.gpus->count == 0 && !request.gpus->type.empty())
    return Error{Errc::kConflict, fmt::format("--dl-gpus: a CPU job has no GPUs of type '{}'; allowed: --dl-gpus=0, or "
                                              "a number from 1 on after the type",
                                              request.gpus->type)};
  if (request.servers && request.servers->max > 0 && !request.learners)
    return Error{Errc::kConflict, fmt::format("--dl-servers={} says nothing of the learners that use them; allowed: "
                                              "--dl-servers together with --dl-learners",
                                              format_servers(*request.servers))};
  if (request.batch && request.learners)
    if (auto fits = check_batch(*request.batch, *request.learners); !fits)
      return std::move(fits).error().with_context("--dl-batch");
  if (request.gpus && request.learners) {
    const int64_t total = static_cast<int64_t>(request.gpus->count) * request.learners->max;
    if (total > kMaxGpusOfJob)
      return Error{Errc::kConflict, fmt::format("--dl-learners={} with --dl-gpus={} means {} GPUs; allowed: at most {}",
                                                request.learners->max, request.gpus->count, total, kMaxGpusOfJob)};
  }
  return {};
}

}  // namespace dl
