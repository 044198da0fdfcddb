// SPDX-License-Identifier: Apache-2.0
// What a save takes with it when the training loop goes on.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "checkpoint/client/context.h"
#include "checkpoint/client/members.h"
#include "checkpoint/client/save_plan.h"
#include "checkpoint/engine/save_job.h"

namespace dl::ckpt {

struct Context::SaveInFlight {
  int64_t step = 0;
  CheckpointName name;  // background: once agreed on
  Clock::time_point begin;
  // Why this rank cannot take part; the others are told.
  Status prepared;
  SavePlan plan;
  std::deque<std::string> blobs;  // the registry's may change meanwhile
  std::unique_ptr<SaveJob> job;   // if prepared
  std::map<std::string, double> metrics;
  std::vector<OpenMember> members;
  bool local_only = false;   // for the node-local level alone: there is no time for more
  uint64_t state_bytes = 0;  // of this rank

  // The training thread's.
  std::atomic<double> blocked_s{0};
  bool told = false;     // the program knows the outcome
  bool counted = false;  // in the statistics
  bool slowdown_known = false;

  // The background thread's, until it is idle again.
  Part own;  // rank 0: what it would tell itself; of many tensors, text and back takes a tenth of a second
  bool written = false;
  std::string slot;  // folder with files to be written again in place, or empty
  double commit_s = 0, durable_s = 0;
  double local_s = 0;  // until it was committed at the node-local level
  Status outcome;
};

}  // namespace dl::ckpt
