// SPDX-License-Identifier: Apache-2.0
// If dlrun dies, the guard starts another one (launcher/guard). This is what the new dlrun has to know of the old one,
// to carry out what that one had begun or promised. All else in the owners of Supervisor begins anew with each attempt,
// or is found out again. Pure.
//
//   what decides what comes next               how a dlrun that takes over knows it
//   restarts, also by class; moves             RunMemory: restarts, class_restarts, moved
//   nodes left out, lost, excluded; the fence  RunMemory: left_out, lost, excluded, fence_unix_ms
//   learner 0 hosts the store, without libuv   RunMemory: store_host
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

// Whether processes that the dead dlrun may have left are killed before anything else. unswept: Predecessor::unswept.
bool must_sweep(const std::string& unswept, const std::optional<Stop>& stop, bool can_requeue);

// The class of the first failure of the newest attempt, from its events, if dlrun died before it decided what follows.
// Empty: no learner failed, what follows was decided, or no restart was to be counted for it.
std::string unanswered_failure(const record::RunMemory& memory, const std::vector<record::Event>& events);

}  // namespace dl::supervise
