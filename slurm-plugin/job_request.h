// SPDX-License-Identifier: Apache-2.0
// What a user asked for with --dl-* flags, as a plain value without Slurm's types.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/contract/batch_range.h"
#include "common/contract/data_request.h"
#include "common/contract/metric_patterns.h"
#include "common/contract/request_values.h"

namespace dl {

struct JobRequest {
  std::optional<FrameworkRef> framework;
  std::optional<LearnerRange> learners;
  std::optional<ServerRange> servers;
  std::optional<GpuRequest> gpus;
  std::optional<BatchRange> batch;
  std::optional<CheckpointSpec> checkpoint;
  std::optional<int> restarts;
  std::optional<PreflightMode> preflight;
  std::optional<std::chrono::seconds> hang_timeout;
  std::optional<std::vector<std::string>> metrics;
  std::optional<std::string> image;
  std::optional<dl::data::DataFlag> data;
  std::optional<dl::data::ResultsFlag> results;
  std::optional<Placement> placement;
  std::optional<Tier> tier;

  // DL_* names with the values as the user typed them, in the order of the table of flags. dlrun reads these variables.
  std::vector<std::pair<std::string, std::string>> environment;

  bool empty() const { return environment.empty(); }
};

// Checks that the flags fit together, as far as this does not depend on the site: kConflict with a sentence that names
// both flags.
Status check_request(const JobRequest& request);

}  // namespace dl
