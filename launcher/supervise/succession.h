// SPDX-License-Identifier: Apache-2.0
// What a dlrun that takes the place of one that died (launcher/guard) has to know of that one to do what it had begun
// or promised. All else in the owners of Supervisor is made anew by each attempt, or found out again. Pure.
//
//   what decides what comes next               how a dlrun that takes over knows it
//   restarts, also by class; moves             RunMemory: restarts, class_restarts, moved
//   nodes left out, lost, excluded; the fence  RunMemory: left_out, lost, excluded, fence_unix_ms
//   learner 0 hosts the store, without libuv   RunMemory: store
//   a stop that was accepted, its deadline     RunMemory: stop; accepted_stop()
//   a signal about which Slurm is asked        memory of the guard; Predecessor::notice
//   what Slurm does with the job               Slurm, asked at the start
//   an end or a return that was decided        RunMemory: decided; its event; decided_before()
//   a failure without an answer yet            its event; unanswered_failure()
//   bad nodes                                  preflight checks, made anew at the start
//   attempts, progress, failures, preemption   events.jsonl
//   stops of other runs of the job             the book of the runs; launcher/runs
//   time limit, KillWait, the user's signal    Slurm and the batch script, asked at the start
//   the lease; speeds at other sizes           their files
//   numbers of requests to learners            they begin anew, as the learners do
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/record/run_memory.h"
#include "launcher/supervise/run_state.h"

namespace dl::supervise {

// The stop of this state as it is recorded. None: there is no stop, or Slurm has not said yet what its signal means
// (open_signal()).
std::optional<record::AcceptedStop> accepted_stop(const RunState& state);
// The requests by which a dlrun that takes over comes to the same stop.
std::vector<StopAsked> ask_again(const record::AcceptedStop& stop);

// The strongest signal about which Slurm is being asked, and when it came; signal 0: none.
struct OpenSignal {
  int signal = 0;
  int64_t unix_ms = 0;
};
OpenSignal open_signal(const RunState& state);

// RunMemory::decided for this decision; empty for those that begin another attempt.
std::string decided_text(EndDecision::Action action);
// The decision that the dead dlrun had recorded and was carrying out; none: there was none. death: why it died.
std::optional<EndDecision> decided_before(const record::RunMemory& memory, const std::vector<record::Event>& events,
                                          const std::string& death);

// The class of the failure with which the newest attempt began to end, as its events say. Empty: no learner failed, or
// the answer is known, or was to count no restart.
std::string unanswered_failure(const record::RunMemory& memory, const std::vector<record::Event>& events);

}  // namespace dl::supervise
