// SPDX-License-Identifier: Apache-2.0
// Decides what to do when the learners have ended: finish, start them again, put the job back, hold it or fail. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/supervise/failure_class.h"
#include "launcher/supervise/first_cause.h"
#include "launcher/supervise/notice.h"

namespace dl::supervise {

// How many attempts in a row, up to and including the last, ended without getting any further: no train step above all
// earlier ones was saved. Attempts that never got as far as running do not count; a HALTED job (paused, held) starts
// the count anew, since a person has looked at it.
int attempts_without_progress(const std::vector<record::Event>& events);

struct AttemptEnd {
  std::optional<Failure> failure;  // first cause; none: no learner failed
  FailureClass failure_class;      // of `failure`
  std::optional<StopCause> stop;   // a stop was asked for
  bool all_finished = false;       // every learner exited 0
  bool all_saved = false;          // learners exited with 75 (saved) or 0; or the agreed train step is committed
  int64_t saved_step = -1;         // newest train step known to be saved
  std::string not_saved_reason;    // why a stop did not save, or empty
  bool killed_by_slurm = false;    // `failure` is_kill(), and Slurm had begun to end the job
};

// Whether a learner ended as Slurm ends what still runs of a job after KillWait: by a SIGKILL to it or to its agent.
bool is_kill(const Failure& failure);
// Whether it was Slurm that killed: it had begun to end the job at slurm_ends_ms (0: it had not). Both are Unix times.
bool is_slurms_kill(const Failure& failure, int64_t failed_ms, int64_t slurm_ends_ms);
// Why a job did not save that was killed this long after Slurm had begun to end it.
std::string killed_before_saved(int64_t after_ms);

struct RestartLimits {
  int restarts_done = 0;  // inside this allocation
  int restarts_max = 0;
  int loop_guard = 2;          // 0 = off
  int without_progress = 0;    // attempts_without_progress(), this one included
  bool measurable = false;     // the job has a checkpoint directory, so its progress can be measured
  bool can_requeue = false;    // a batch job that Slurm may put back
  bool node_lost = false;      // the failure took nodes away
  bool rest_suffices = false;  // node_lost: the rest of the allocation holds the learners, or an elastic job's fewer
  int class_restarts = 0;      // how many of restarts_done followed failures of the same class
  bool stop_asked = false;     // a dlrun that died had accepted a stop
  int without_data = 0;        // attempts_without_data(), this one included
  int same_failure = 0;        // attempts that ended by the same failure at the same train step, this one included
};

struct EndDecision {
  enum class Action { kComplete, kRestart, kRequeue, kHold, kAlreadyRequeued, kFail, kStopped };
  Action action = Action::kFail;
  int exit_status = 0;
  std::string reason;         // for events, comment and people
  bool exclude_node = false;  // kRequeue: not on the node of the learner that failed
  bool without_lost = false;  // kRestart: on the rest of the allocation; it does not count in restarts_done
  bool other_nodes = false;   // kRestart: StopCause::kOtherNodes; it does not count in restarts_done either
  bool by_slurm = false;      // the learners were killed because Slurm ends the job: nothing has failed
};

// A stop takes precedence over the failures that it causes, and so does Slurm's kill of a job that it ends; a job that
// finished all the same is complete. A failure is answered as its class says (failure_class.h): learners are restarted
// while restarts are left, in all and for the class, unless the loop guard holds the job. After the same failure at the
// same train step twice there is no third try.
EndDecision decide_end(const AttemptEnd& end, const RestartLimits& limits);

// What to do after a dlrun died (Failure::Kind::kLauncher). A job without checkpoints begins again from its start,
// which it must have allowed (restarts_max > 0); this does not count in restarts_done. last: dlrun may not be started
// again. limits.node_lost: the dead dlrun had lost a node, and the others do not suffice. limits.stop_asked: a restart,
// in whose place the stop is carried out (run_state.h).
EndDecision decide_after_death(const Failure& death, bool last, const RestartLimits& limits);

}  // namespace dl::supervise
