// SPDX-License-Identifier: Apache-2.0
// The states of a run, and what each event makes of them: next(state, event) changes the state and returns the actions
// that follow, which the supervisor carries out in this order. All decisions about what comes next are made here, so
// that tests can try any order of events. Pure.
//
//   Idle -> Starting -> Running -> Stopping -> Ending -> Judging -> Sweeping -> CheckingNodes -> Starting again
//                                                                            -> PuttingBack | Settling -> Over
//
// A stop that is asked for while no learner runs (Judging, Sweeping, CheckingNodes), or while a failure is ending them,
// waits for the decision about the attempt: if the job would have gone on, it is stopped instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/supervise/grace_budget.h"
#include "launcher/supervise/notice.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/stop_agreement.h"

namespace dl::supervise {

enum class Phase {
  kIdle,           // no attempt has begun
  kStarting,       // agents are being started
  kRunning,        // learners were told to start
  kStopping,       // the same, and they are to stop at an agreed train step, or to finish
  kEnding,         // they are being killed: after a failure, or by a stop that does not wait
  kJudging,        // all have ended; what to do next is being decided
  kSweeping,       // processes that lost agents may have left are being killed
  kCheckingNodes,  // nodes are checked before learners start again
  kPuttingBack,    // the job is being put back into the queue
  kSettling,       // the last comment is sent to Slurm, agents end
  kOver,
};
const char* phase_name(Phase phase);  // static

// ---- events

struct Begin {};      // the first attempt
struct AgentsReady {  // all agents have come, and learners may start
  int deciding = 1;   // LaunchPlan::deciding()
};
struct AllStarted {};  // all learners run, or have ended
struct StopAsked {
  StopCause cause = StopCause::kPause;
  std::optional<int64_t> deadline_ms;  // Unix time at which processes may be killed
  int signal = 0;                      // the signal that dlrun got, 0 = none
  std::string who;                     // text for people
  uint64_t asker = 0;                  // connection that gets the StopAnswer; 0: none
};
struct Signalled {
  int signal = 0;  // SIGINT, SIGHUP, SIGTERM, SIGUSR2: sent to dlrun or to an agent
};
struct SlurmSaid {                        // the answer to AskSlurm
  std::optional<slurm_cli::JobInfo> job;  // none: Slurm did not answer
};
struct SaveDue {};  // a periodic save
struct Reported {   // a learner's answer to SendRequest
  int rank = 0;
  int64_t request = 0;
  StepAnswer answer;
};
struct Acted {  // a learner has acted upon a request
  int rank = 0;
  int64_t request = 0;
};
struct Gone {  // a learner has ended
  int rank = 0;
  bool deaf_left = false;  // it ended well, and of those that still run none can be asked to stop
};
constexpr int kFailureGraceMs = 500;  // for learners to write their last lines before they are killed
struct EndLearners {                  // because of a failure, or because those that they served have ended
  int grace_ms = kFailureGraceMs;
};
struct AttemptOver {        // all learners have ended
  bool job_known = true;    // Slurm has said something about the job, so it is known whether it may be requeued
  bool by_sigterm = false;  // the first failure is a learner that SIGTERM ended
  bool by_kill = false;     // the first failure is_kill() (restart_policy.h)
};
struct WhyKnown {
  std::optional<StopCause> by_slurm;  // Slurm's SIGTERM ended the learners, for this cause
};
struct Decided {  // after JudgeEnd, JudgeStopped and CheckNodes
  EndDecision::Action what = EndDecision::Action::kFail;
  bool sweep = false;        // agents were lost: what they left has to be killed
  bool again = false;        // the attempt is begun anew, whatever the decision
  bool check = false;        // nodes are checked before a restart
  bool ask_version = false;  // what comes after the end depends on Slurm's version
  bool by_slurm = false;     // EndDecision::by_slurm
};
struct Swept {};
struct VersionKnown {};
struct BackInQueue {
  bool done = false;  // false: Slurm refused
};
struct Settled {};
struct Tick {};

using RunEvent =
    std::variant<Begin, AgentsReady, AllStarted, StopAsked, Signalled, SlurmSaid, SaveDue, Reported, Acted, Gone,
                 EndLearners, AttemptOver, WhyKnown, Decided, Swept, VersionKnown, BackInQueue, Settled, Tick>;

struct Moment {
  int64_t unix_ms = 0, awake_ms = 0;
  SaveTimes times;  // as measured so far; needed by events that may lead to a stop
};

// ---- actions

struct StartAttempt {  // starts agents, or tells those that wait to begin anew
  bool again = false;  // Decided::again
};
struct StartLearners {};  // tells the agents to start their learners
struct GiveUpUnheard {};  // learners whose agents have not come are counted as ended
struct GiveUpAll {};      // all learners are counted as ended: they should have ended long ago
struct StopAnswer {       // the reply to StopAsked
  enum class Kind {
    kTaken,    // it is carried out now
    kLater,    // it is carried out after the decision about the attempt
    kAlready,  // another stop is under way
    kTooLate,  // the job is ending
  };
  uint64_t asker = 0;
  Kind kind = Kind::kTaken;
};
struct AskSlurm {};      // asks Slurm about the job; then SlurmSaid
struct WatchTimeLimit {  // the time limit ends the job at this Unix time
  int64_t end_ms = 0;
};
struct TakeOffer {  // asks Slurm for the nodes that dlpolicyd offers
  NodeOffer offer;
};
struct Say {
  std::string text;
};
struct SendRequest {  // asks all learners for their train step; each answers (Reported)
  int64_t request = 0;
  uint32_t kind = 0;
};
struct SendDecide {  // tells all learners to act at this train step
  int64_t request = 0;
  uint32_t kind = 0;
  int64_t step = 0;
};
struct SendWithdraw {  // takes the request back
  int64_t request = 0;
};
struct SignalLearners {
  int signal = 0;
  bool handed_on = false;  // protocol::Signal
};
struct KillLearners {
  int grace_ms = 0;
};
struct AskWhy {};        // asks whether Slurm ended the learners; then WhyKnown
struct JudgeEnd {};      // decides what follows; then Decided
struct JudgeStopped {};  // the same, for a stop before the next attempt
struct Sweep {};         // kills what lost agents left; then Swept
struct AskVersion {};    // asks for the version of Slurm; then VersionKnown
struct CheckNodes {};    // checks nodes before a restart; then Decided
struct End {};           // ends the run as decided; then Settled
struct PutBack {         // puts the job back into the queue; then BackInQueue
  bool hold = false;
  bool at_once = false;  // Slurm is killing what is left of the job, dlrun too, so nothing is waited for
};
struct AlreadyBack {};    // Slurm has put the job back; then Settled
struct HoldJob {};        // holds it there: it is in the queue already
struct KeepStartTime {};  // keeps the begin time until Slurm ends dlrun; then Settled
struct PutBackFailed {};  // the job fails; then Settled
struct Finish {};         // leaves the loop

using RunAction = std::variant<StartAttempt, StartLearners, GiveUpUnheard, GiveUpAll, StopAnswer, AskSlurm,
                               WatchTimeLimit, TakeOffer, Say, SendRequest, SendDecide, SendWithdraw, SignalLearners,
                               KillLearners, AskWhy, JudgeEnd, JudgeStopped, Sweep, AskVersion, CheckNodes, End,
                               PutBack, AlreadyBack, HoldJob, KeepStartTime, PutBackFailed, Finish>;
using RunActions = std::vector<RunAction>;

// ---- the state

struct RunRules {
  bool under_slurm = false;
  int64_t grace_ms = 30000;  // SIGTERM -> SIGKILL for learners that cannot be asked
  int64_t signal_lead_s = 120;
  int64_t kill_wait_s = 30;
  int restart_count = 0;  // how often Slurm had put the job back when it started
  // The signal before the time limit is the user's own, and dlrun gets it: learners save when it comes. False: it only
  // announces the time limit.
  bool saves_at_own_signal = false;
};

// What Slurm means by a signal that came at signal_ms (Unix time). job: Slurm's answer now; none: it does not answer.
// taken_s: NoticeInput::taken_s.
NoticeReading read_signal(const RunRules& rules, int signal, int64_t signal_ms,
                          const std::optional<slurm_cli::JobInfo>& job, int64_t now_unix_ms, int64_t taken_s = 0);

struct Stop {
  StopCause cause = StopCause::kPause;
  std::string who;                     // text for people
  int signal = 0;                      // the signal that dlrun got, 0 = none
  std::optional<int64_t> deadline_ms;  // Unix time
  bool save = true;
  bool local = false;  // at the node-local level alone
  std::string not_saved_reason;
  bool killing = false;   // the learners end because of it, unsaved
  bool presumed = false;  // Slurm has not answered yet what its signal means
  bool late = false;      // asked for when this attempt was ending: meant for what comes after it
  bool hold = false;      // a pause was asked for, too
  // Unix time of the signal with which Slurm began to end the job, as Slurm itself says; 0: it has not begun. What
  // still runs KillWait later is killed.
  int64_t slurm_ends_ms = 0;
};

// The question to Slurm about a signal.
struct Question {
  bool open = false;
  int signal = 0;
  int64_t signal_ms = 0;  // Unix time at which it came
  bool presumed = false;  // dlrun has acted without waiting for the answer
  // When a SIGTERM came while the question about SIGUSR2 was open: Unix time, 0 = none. It needs a question of its own.
  int64_t term_ms = 0;
  int64_t answered_ms = 0;  // awake time of the last answer
};

struct RunState {
  RunRules rules;
  Phase phase = Phase::kIdle;
  std::optional<Stop> stop;
  Question question;
  int interrupts = 0;
  int64_t interrupted_ms = 0;
  int64_t offer_taken_s = 0;  // NodeOffer::offered_s of the last one; 0: none

  // About the attempt
  bool learners_started = false, all_started = false;
  std::vector<bool> gone;  // which learners have ended, of those that decide (LaunchPlan::deciding())
  StopAgreement agreement;
  bool stop_waits = false;    // the stop begins when the save that is being made is done
  int64_t kill_unix_ms = 0;   // kEnding: Unix time at which learners that still run are killed
  int64_t deaf_after_ms = 0;  // kEnding: awake time after which silent learners count as lost

  // About what follows it
  bool by_kill = false;  // AttemptOver::by_kill
  Decided decided;
  bool is_decided = false, version_known = false, nodes_checked = false, overruled = false;
  bool hold = false, back_in_queue = false, killed = false;

  // The last request number; it goes on through all attempts, so that none is used twice.
  int64_t requests = 0;

  bool alive() const { return phase >= Phase::kStarting && phase <= Phase::kEnding; }  // an attempt is under way
  bool running() const { return phase == Phase::kRunning || phase == Phase::kStopping; }
  bool ending() const { return phase == Phase::kEnding; }
  // Learners were told to start, and not all have ended.
  bool learners_under_way() const { return alive() && learners_started; }
  bool finished() const { return phase >= Phase::kSettling; }
  bool may_greet() const { return phase == Phase::kStarting || (ending() && !learners_started); }  // Hello is awaited
};

RunActions next(RunState* state, const RunEvent& event, const Moment& now);

}  // namespace dl::supervise
