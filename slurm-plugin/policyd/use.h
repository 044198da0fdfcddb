// SPDX-License-Identifier: Apache-2.0
// What tenants have borrowed lately, for the fair share where no slurmdbd counts it: rebuilt from the running jobs, and
// kept in a small file that may be lost without harm. Pure but for load and save.
#pragma once

#include <map>
#include <string>

#include "common/base/result.h"
#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policyd {

class RecentUse {
 public:
  // The use until now: from the last call on, each tenant held what it borrows in `state`. The first call without an
  // earlier record counts the running jobs from their start. Then puts the use into state->tenants.
  void update(policy::ClusterState* state);

  // One JSON object. A missing file is an empty record; one that cannot be understood is kInvalid, and nothing changes.
  Status load(const std::string& path);
  Status save(const std::string& path) const;

  Status parse(const std::string& text);
  std::string text() const;

 private:
  std::map<std::string, double> gpu_s_;  // by tenant
  int64_t at_s_ = 0;                     // 0: no record yet
};

}  // namespace dl::policyd
