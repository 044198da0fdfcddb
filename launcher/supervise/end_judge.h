// SPDX-License-Identifier: Apache-2.0
// Judges how an attempt has ended, and keeps the decision about what follows. It gathers what the pure decisions
// (restart_policy.h, recheck.h) have to know from those that know it; the states of the run (run_state.h) get what it
// decides as an event. There is no socket and no clock of its own: callers pass Unix time where a name says so, else
// times of the awake clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/site/site_config.h"
#include "launcher/guard/guard.h"
#include "launcher/record/event_log.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/recheck.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/slurm_job.h"

namespace dl::supervise {

class EndJudge {
 public:
  // What it looks at. All are borrowed.
  struct Sources {
    const Attempt* attempt = nullptr;
    const RunState* state = nullptr;
    NodePool* nodes = nullptr;
    const SlurmJob* slurm = nullptr;
    const Journal* journal = nullptr;
    const SiteConfig* site = nullptr;
    bool checks_nodes = false;  // the job has asked for checks before a restart
  };
  explicit EndJudge(const Sources& from) : from_(from) {}

  // How the attempt has ended, for AttemptOver.
  AttemptOver over() const;
  // What Slurm's SIGTERM means that has ended the learners, now that Slurm was asked about it. signal_ms: when the
  // question was put.
  WhyKnown why(int64_t signal_ms, int64_t now_unix_ms) const;

  // Each of these decides anew.
  Decided end(int64_t now_ms, int64_t now_unix_ms);      // after JudgeEnd
  Decided stopped(int64_t now_ms, int64_t now_unix_ms);  // after JudgeStopped: it was to go on, but a stop came
  // These nodes were found bad, and so none of them may be used again. An empty list changes nothing.
  Decided nodes_checked(const std::vector<std::string>& bad);
  // This dlrun takes the place of one that died. death: how, as a failure. goes_on: the decision was the dead one's
  // own, which this one carries out; false: the death is what the attempt is to be blamed for.
  Decided after_death(const Failure& death, const guard::Predecessor& before, bool* goes_on);

  const EndDecision& decision() const { return decision_; }
  // dlrun's own: that of the decision, except that outside Slurm a Ctrl-C without a save gives 128 + the signal, as
  // shells expect.
  int exit_status() const;
  // The failure that the decision is about, if any; its class, and the code of that, which are empty without one.
  std::optional<Failure> cause() const;
  FailureClass failure_class() const;
  std::string code() const { return cause() ? failure_class().code : std::string(); }
  // Whether this end of the job may be one after which Slurm starts it once more (once_more.h).
  bool may_come_once_more() const;
  // dlrun's last message about a job that failed: the cause, its class where that says more, the path of its log
  // (`log`), and the log's last lines, unless they have just appeared in dlrun's output unmixed with those of other
  // learners. name: as dlrun calls itself.
  std::string failure_text(const std::string& name, bool quiet, const std::string& log) const;

 private:
  AttemptEnd attempt_end(int64_t now_ms, int64_t now_unix_ms) const;
  RestartLimits limits() const;
  Decided decided() const;
  bool needs_other_store(const FailureClass& its) const;

  Sources from_;
  EndDecision decision_;  // about the newest attempt that has ended
};

}  // namespace dl::supervise
