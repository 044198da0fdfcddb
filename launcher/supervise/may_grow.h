// SPDX-License-Identifier: Apache-2.0
// Whether a run may be given more nodes, by another companion (companion_job.h). Pure.
#pragma once

#include <string>

#include "common/contract/request_values.h"

namespace dl::supervise {

struct GrowthFacts {
  int nodes = 1;            // that are to be added
  bool can_grow = false;    // it has an allocation of Slurm's, and nothing forbids companions
  LearnerRange asked;       // as the job was submitted
  int learners = 0;         // that it has, those on its companions among them
  int servers = 0;          // parameter servers
  bool saves = false;       // a learner saves to the checkpoint directory
  int companions = 0;       // that it has
  bool one_is_new = false;  // a companion is being submitted, or no learner is on its nodes yet
  bool trains = false;      // all learners run, and nothing asks them to stop
};

// Empty: it may; else a sentence with what is allowed.
std::string why_not_grow(const GrowthFacts& facts);

}  // namespace dl::supervise
