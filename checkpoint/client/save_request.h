// SPDX-License-Identifier: Apache-2.0
// What the training thread hands to the background thread for a save, and what it gets back.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/client/members.h"
#include "checkpoint/client/pacer.h"
#include "checkpoint/client/save_plan.h"
#include "checkpoint/engine/save_job.h"
#include "common/base/result.h"

namespace dl::ckpt {

struct SaveRequest {
  int64_t step = 0;
  std::chrono::steady_clock::time_point begin;
  // An error if this rank cannot take part in the save; the others are told then.
  Status prepared;
  SavePlan plan;
  // If prepared, and there is something to write. Both threads work on it, each on its own side (engine/save_job.h).
  std::shared_ptr<SaveJob> job;
  std::map<std::string, double> metrics;
  std::vector<OpenMember> members;
  bool local_only = false;   // for the node-local level alone: there is no time for more
  uint64_t state_bytes = 0;  // of this rank
  // How long the program's call took: 0 until it has returned. The training thread writes it, the background reads.
  std::shared_ptr<const std::atomic<double>> blocked_s;
};

struct SaveOutcome {
  Status status;
  double commit_s = 0;
  double durable_s = 0;       // from begin; 0: it failed
  SavePrediction prediction;  // of the next
};

}  // namespace dl::ckpt
