// SPDX-License-Identifier: Apache-2.0
// The data that the training thread gives to the background thread for a save, and the result that it gets back.
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
  // An error if this rank cannot take part in the save; the other ranks are then informed.
  Status prepared;
  SavePlan plan;
  // Set if `prepared` is good and there is something to write. Both threads work on the job, each on its own side
  // (engine/save_job.h).
  std::shared_ptr<SaveJob> job;
  std::map<std::string, double> metrics;
  std::vector<OpenMember> members;
  bool local_only = false;   // save only at the node-local level: there is no time for more
  uint64_t state_bytes = 0;  // bytes of this rank's state
  // Duration of the program's call; 0 until it has returned. The training thread writes it, the background thread reads
  // it.
  std::shared_ptr<const std::atomic<double>> blocked_s;
};

struct SaveOutcome {
  Status status;
  double commit_s = 0;
  double durable_s = 0;       // seconds from `begin` until it was durable; 0: it failed
  SavePrediction prediction;  // for the next save
};

}  // namespace dl::ckpt
