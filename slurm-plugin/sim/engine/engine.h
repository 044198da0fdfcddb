// SPDX-License-Identifier: Apache-2.0
// Replays a trace under one policy, in virtual time: from event to event, with a decision after each moment at which
// something happened. Times are those of the trace; the real clock is only read to measure how long decisions take.
//
// The work of a job is run_s x max_learners learner-seconds, done at one per second and learner; where the trace gives
// a serial part, learners are worth less the more there are (TraceJob::serial). A job that is stopped or shrunk goes
// back to its last checkpoint; its next attempt begins with restart_s seconds without progress. A job that was asked to
// yield runs on for Scenario::yield_s.
//
// A job that is resized, grows in place or gives a companion back saves first, so that it loses the time of a restart
// alone; through the queue Scenario::requeue_s comes to that.
#pragma once

#include <functional>

#include "slurm-plugin/sim/engine/outcome.h"
#include "slurm-plugin/sim/policies/policies.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

struct Scenario {
  policy::ClusterState cluster;  // nodes, types, tenants, half_life_s and patience_s; its jobs are ignored
  int64_t min_run_s = 600;       // a job becomes no victim before it has run for this time
  int64_t yield_s = 30;          // time from the request to yield until the GPUs are free
  int64_t requeue_s = 3;         // what a resize through the queue costs a job beside its restart
  int64_t join_s = 4;            // from the start of a companion until its agents have come; the job trains meanwhile
  int64_t stuck_s = 3600;        // when a deadlock has lasted this long, its youngest job gives up its GPUs; 0: never
  uint64_t seed = 1;             // for policies that choose at random, and for failures
  int64_t interval_s = 0;        // decisions are made only at multiples of this; 0: at once
  int64_t mtbf_s = 0;            // mean time from a node's repair to its next failure; 0: nodes never fail
  int64_t repair_s = 4 * 3600;   // time from a node's failure until it can be used again
};

struct Hooks {
  // Called now and then with the virtual time; may be empty.
  std::function<void(int64_t now_s)> progress;
  // Called after each decision was carried out, with the state before it, the decision and the state after it; may be
  // empty. For tests.
  std::function<void(const policy::ClusterState& before, const Turn& turn, const policy::ClusterState& after)> watch;
};

// kNotFound if a job names a tenant or a type that the cluster lacks, kInvalid if the cluster contradicts itself; both
// with one sentence.
Result<Outcome> replay(const Trace& trace, const SimPolicy& policy, const Scenario& scenario, const Hooks& hooks = {});

}  // namespace dl::sim
