// SPDX-License-Identifier: Apache-2.0
// Counts what becomes of jobs, by comparing rounds, under the names that FfDL's trainer has for it. It begins anew with
// each dlpolicyd, as counters of Prometheus may. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "slurm-plugin/observe/cluster_view.h"

namespace dl::policyd {

class JobCounts {
 public:
  // To be called in each round. What the first round finds is not counted. All jobs count, by account if that is a
  // tenant, else without one. A job array is submitted once; of its elements each starts and ends.
  void update(const policy::ClusterState& state, const observe::Records& records);
  // In Prometheus' text format.
  std::string text() const;

 private:
  struct Sums {
    int64_t created = 0, started = 0, halted = 0, put_back = 0;
    int64_t succeeded = 0, cancelled = 0, failed = 0, failed_by_system = 0;
  };
  struct Seen {
    bool runs = false, halted = false;
  };
  void compare(const observe::JobRecord& record, const Seen& now, Sums* sums);

  std::map<std::string, Sums> by_tenant_;
  std::map<int64_t, Seen> seen_;  // jobs that waited or ran in the last round, by Slurm's id
  std::set<int64_t> ended_;       // jobs that had ended then and that slurmctld still knew
  bool began_ = false;
};

}  // namespace dl::policyd
