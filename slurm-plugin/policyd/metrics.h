// SPDX-License-Identifier: Apache-2.0
// Prometheus' text format, with FfDL's names where FfDL has one. Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/policyd/planner.h"

namespace dl::policyd {

// Since this process began.
struct Totals {
  int64_t asked = 0;      // victims asked to yield
  int64_t requeued = 0;   // put back by Slurm, since they did not go
  int64_t returned = 0;   // victims that came back into the queue
  int64_t withdrawn = 0;  // that need not have gone any more
  int64_t updates = 0;    // changes to jobs, of every kind: messages to slurmctld
  double round_s = 0;     // what the last whole round took
};
// One that was carried out.
void count_action(ActionKind kind, Totals* totals);

std::string metrics_text(const observe::ClusterView& view, const policy::Decision& decision, const Totals& totals);

}  // namespace dl::policyd
