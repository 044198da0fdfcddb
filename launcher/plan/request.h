// SPDX-License-Identifier: Apache-2.0
// The user's request: the DL_* environment and dlrun's own options, parsed. An option overrides its variable. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/batch_range.h"
#include "common/contract/data_request.h"
#include "common/contract/metric_patterns.h"
#include "common/contract/request_values.h"
#include "common/site/site_config.h"
#include "launcher/bind/bind_mode.h"

namespace dl::plan {

using Environment = std::map<std::string, std::string>;

// dlrun's options as typed; absent = not given.
struct RequestOptions {
  std::optional<std::string> framework;       // --framework
  std::optional<std::string> learners;        // --learners
  std::optional<std::string> servers;         // --servers
  std::optional<std::string> gpus;            // --gpus
  std::optional<std::string> batch;           // --batch
  std::optional<std::string> checkpoint;      // --checkpoint
  std::optional<std::string> restarts;        // --restarts
  std::optional<std::string> rank_placement;  // --placement: block or cyclic
  std::optional<std::string> preflight;       // --preflight
  std::optional<std::string> hang_timeout;    // --hang-timeout
  std::optional<std::string> metrics;         // --metrics
  std::optional<std::string> image;           // --image
  std::optional<std::string> data;            // --data
  std::optional<std::string> results;         // --results
  std::optional<std::string> bind;            // --bind
  bool alone = false;                         // --alone
};

struct Request {
  FrameworkRef framework;
  std::string framework_from = "--framework";  // the option, variable or file that named it, for messages
  std::optional<LearnerRange> learners;        // absent: as many as the allocation has tasks; 1 without Slurm
  bool learners_by_gpus = false;               // --learners auto: one learner for every --gpus GPUs (default 1)
  ServerRange servers;                         // parameter servers, beside the learners
  std::optional<GpuRequest> gpus;   // absent: a node's GPUs are divided evenly among its learners, if they can be
  std::optional<BatchRange> batch;  // absent: the program has its own
  std::optional<CheckpointSpec> checkpoint;
  int restarts = 0;
  Tier tier = Tier::kAuto;
  std::string rank_placement = "block";
  PreflightMode preflight = PreflightMode::kOff;
  std::chrono::seconds hang_timeout{0};          // 0: none
  std::vector<std::string> metrics;              // expressions that find metrics in the output (metric_patterns.h)
  std::optional<std::string> image;              // container image, as typed; absent: none
  std::optional<dl::data::DataFlag> data;        // what is fetched before the learners start
  std::optional<dl::data::ResultsFlag> results;  // where results are stored
  bind::BindMode bind = bind::BindMode::kNone;
  bool alone = false;  // one learner that is told no rank, as a program that is started by hand
};

// kInvalid "DL_LEARNERS: 'x' is ...; allowed: ..." or "--learners: 'x' is ...". An empty variable counts as not set.
// make_plan() checks whether the framework and the rank placement exist.
Result<Request> read_request(const Environment& environment, const RequestOptions& options, const SiteConfig& site);

}  // namespace dl::plan
