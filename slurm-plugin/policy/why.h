// SPDX-License-Identifier: Apache-2.0
// Explains why a job waits: as data, and as a sentence for its owner.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/policy/decide.h"

namespace dl::policy {

struct Why {
  Waiting waiting;
  int type = kAnyType;  // of the GPUs meant in `would_have_to_end`
  // The jobs (indexes) whose end would let it run at the least loss, whoever they belong to; empty if that would not
  // help.
  std::vector<int> would_have_to_end;
  bool can_ever_run = true;
  std::string sentence;
};

// `decision` is decide(state); `job` an index. A job that does not wait gets a sentence that says so.
Why why(const ClusterState& state, const Decision& decision, int job);

}  // namespace dl::policy
