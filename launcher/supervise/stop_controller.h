// SPDX-License-Identifier: Apache-2.0
// Tells when a run has to stop or save by itself: because of the time limit, the interval of periodic saves, or
// request.json. What follows, and the agreement of the learners on a train step, is in run_state.h. No clock and no
// socket: callers pass times, Unix time where a name says so, else of the awake clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/event_log.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/run_state.h"

namespace dl::supervise {

// The reply to a client that asked for a stop. Pure.
protocol::Reply reply_to(StopAnswer::Kind kind);

class StopController {
 public:
  // signal_lead_ms: how long before its time limit the job asked Slurm for a signal.
  StopController(const plan::LaunchPlan& plan, int64_t signal_lead_ms);

  // takes_over: this dlrun replaces one that died, and obeys requests that were meant for that one.
  void run_begins(int64_t unix_ms, bool takes_over);
  // Slurm's first answer about the job; none: it did not answer.
  void job_is_known(const std::optional<slurm_cli::JobInfo>& job);

  // ---- the time limit
  // When Slurm ends the job, as Slurm says; none: never.
  void limit_is(std::optional<int64_t> end_unix_ms) { end_unix_ms_ = end_unix_ms; }
  std::optional<int64_t> end_ms() const { return end_unix_ms_; }  // the same
  // True if the limit is so near that a save has to begin. It may have been raised since, so the caller asks Slurm
  // first, and passes the answer to limit_known(). False until then.
  bool must_ask_about_limit(int64_t unix_ms, const SaveTimes& times);
  // Returns the stop to ask for; none if the limit is not near. answer: none if Slurm did not answer. last: its last
  // answer.
  std::optional<StopAsked> limit_known(const std::optional<slurm_cli::JobInfo>& answer,
                                       const std::optional<slurm_cli::JobInfo>& last, int64_t unix_ms,
                                       const SaveTimes& times);

  // Returns the stop to ask for if Slurm has not answered for 2 s, as limit_known() without an answer; else none.
  std::optional<StopAsked> limit_unanswered(const std::optional<slurm_cli::JobInfo>& last, int64_t unix_ms,
                                            const SaveTimes& times);

  // ---- the user's own signal before the time limit (own_signal.h)
  enum class OwnSignalUse {
    kNone,         // there is none, or dlrun handles it: the time limit alone counts
    kStopsBefore,  // it would end the script or the learners: treated like the time limit
    kSavesBefore,  // whoever gets it may end the job: saves are made often before it
  };
  void own_signal_is(OwnSignalUse use, int lead_s) {
    own_use_ = use;
    own_lead_s_ = lead_s;
  }

  // ---- periodic saves
  // Whether one is due; it then counts as tried. The interval of every=auto is computed anew by each call, from the
  // measurements of the saves so far. events: the job's history.
  bool save_due(Attempt* attempt, const std::vector<record::Event>& events, int64_t now_ms, int64_t unix_ms) const;

  // ---- request.json
  // Takes the request and removes the file; none if there is no file. Fails if it is not a request, or was written
  // before this run of the job began: an earlier run has left it behind. Under Slurm a run begins with the job's start,
  // so that dlctl may ask before dlrun runs. A file older than dlrun is left alone until that start is known
  // (job_is_known()).
  Result<std::optional<StopAsked>> take_request(const std::string& path) const;

 private:
  bool is_near(int64_t unix_ms, const SaveTimes& times) const;
  std::optional<int64_t> own_signal_ms() const;
  std::optional<int64_t> end_of_work_ms() const;

  bool under_slurm_;
  std::optional<CheckpointSpec> checkpoint_;
  int64_t signal_lead_ms_;
  int64_t started_unix_ms_ = 0;
  std::optional<int64_t> end_unix_ms_;
  bool asking_ = false;
  int64_t asked_unix_ms_ = 0;
  OwnSignalUse own_use_ = OwnSignalUse::kNone;
  int own_lead_s_ = 0;
  int64_t requests_since_ms_ = 0;  // Unix time
  bool job_known_ = false;
};

}  // namespace dl::supervise
