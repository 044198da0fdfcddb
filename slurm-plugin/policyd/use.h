// SPDX-License-Identifier: Apache-2.0
// Keeps how much each tenant has borrowed lately, for the fair share: without slurmdbd there is no other source. The
// record is rebuilt from the running jobs, and kept in a small file that may be lost without harm. Pure except load()
// and save().
#pragma once

#include <map>
#include <string>

#include "common/base/result.h"
#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policyd {

class RecentUse {
 public:
  // Adds the time since the last call, assuming that each tenant held during it what it borrows in `state`, and writes
  // the use into state->tenants. The first call without a loaded record counts the running jobs from their start.
  void update(policy::ClusterState* state);

  // Reads one JSON object. A missing file is an empty record. A file that cannot be parsed is kInvalid, and the record
  // stays as it is.
  Status load(const std::string& path);
  Status save(const std::string& path) const;

  Status parse(const std::string& text);
  std::string text() const;

 private:
  std::map<std::string, double> gpu_s_;  // by tenant
  int64_t at_s_ = 0;                     // 0: no record yet
};

}  // namespace dl::policyd
