// SPDX-License-Identifier: Apache-2.0
// Where a run's own wishes to stop or to save come from: the time limit, the interval of periodic saves, request.json.
// What is made of a wish, and the agreement of the learners on a train step, stand in run_state.h. No clock and no
// socket: times are given, Unix time where a name says so, else of the awake clock.
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

// What whoever asked for a stop is told. Pure.
Reply reply_to(StopAnswer::Kind kind);

class StopController {
 public:
  // signal_lead_ms: how long before its time limit the job asked to be told.
  StopController(const plan::LaunchPlan& plan, int64_t signal_lead_ms);

  // takes_over: in the place of a dlrun that died, whose requests are this one's.
  void run_begins(int64_t unix_ms, bool takes_over);
  // What Slurm has said of the job first; none: it did not answer.
  void job_is_known(const std::optional<slurm_cli::JobInfo>& job);

  // ---- the time limit
  // When Slurm ends the job, as Slurm says; none: never.
  void limit_is(std::optional<int64_t> end_unix_ms) { end_unix_ms_ = end_unix_ms; }
  // It is so near that a save has to begin. It may have been raised since, so Slurm is asked first, and then
  // limit_known() told; no other question is due before that.
  bool must_ask_about_limit(int64_t unix_ms, const SaveTimes& times);
  // answer: none where Slurm does not answer. last: what it said last of the job.
  std::optional<StopAsked> limit_known(const std::optional<slurm_cli::JobInfo>& answer,
                                       const std::optional<slurm_cli::JobInfo>& last, int64_t unix_ms,
                                       const SaveTimes& times);

  // Slurm has not answered for so long that the time is used up by waiting: as if it never did.
  std::optional<StopAsked> limit_unanswered(const std::optional<slurm_cli::JobInfo>& last, int64_t unix_ms,
                                            const SaveTimes& times);

  // ---- the user's own signal before the time limit (own_signal.h)
  enum class OwnSignalUse {
    kNone,         // there is none, or it is dlrun's affair: the time limit alone counts
    kStopsBefore,  // it would end the script or the learners: as if it were the time limit
    kSavesBefore,  // whoever gets it acts on it, and may end all: saves stay new from then on
  };
  void own_signal_is(OwnSignalUse use, int lead_s) {
    own_use_ = use;
    own_lead_s_ = lead_s;
  }

  // ---- periodic saves
  // Whether one is due; it then counts as tried. every=auto is computed anew each time: measurements come in with each
  // save. events: the job's history.
  bool save_due(Attempt* attempt, const std::vector<record::Event>& events, int64_t now_ms, int64_t unix_ms) const;

  // ---- request.json
  // What it asks for; none: there is none. The file is removed. Fails where it is no request, or was written before
  // this run of the job began: an earlier one has left it behind. Under Slurm a run begins with the job's start, so
  // that dlctl may ask before dlrun is there; what is older than dlrun is not touched before that start is known.
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
