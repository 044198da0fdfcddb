// SPDX-License-Identifier: Apache-2.0
// The states of a run, and what each event makes of them: next(state, event) changes the state and gives the actions
// that follow, which the supervisor carries out in their order. All that decides what comes next stands here, so that
// tests can try any order of events. Pure.
//
//   Idle -> Starting -> Running -> Stopping -> Ending -> Judging -> Sweeping -> CheckingNodes -> Starting again
//                                                                            -> PuttingBack | Settling -> Over
//
// A stop that is asked for while no learner runs (Judging, Sweeping, CheckingNodes), or while a failure is ending them,
// waits for what was decided: where the job would have gone on, it is stopped instead.
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
  kStarting,       // agents are on their way
  kRunning,        // learners were told to start
  kStopping,       // the same, and they are to stop at a train step, or to finish
  kEnding,         // they are being killed: a failure, or a stop that does not wait
  kJudging,        // all have ended; what that means is found out
  kSweeping,       // what lost agents may have left is ended
  kCheckingNodes,  // before they start again
  kPuttingBack,    // the job goes back into the queue
  kSettling,       // the last words reach Slurm, agents end
  kOver,
};
const char* phase_name(Phase phase);  // static

// ---- events

struct Begin {};      // the first attempt
struct AgentsReady {  // all are there, and learners may start
  int deciding = 1;   // LaunchPlan::deciding()
};
struct AllStarted {};  // all learners run, or have ended
struct StopAsked {
  StopCause cause = StopCause::kPause;
  std::optional<int64_t> deadline_ms;  // Unix time at which processes may be killed
  int signal = 0;                      // what was sent to us, 0 = none
  std::string who;                     // text for people
  uint64_t asker = 0;                  // who is answered (StopAnswer); 0: nobody
};
struct Signalled {
  int signal = 0;  // SIGINT, SIGHUP, SIGTERM, SIGUSR2: sent to dlrun or to an agent
};
struct SlurmSaid {  // of the job, after AskSlurm
  std::optional<slurm_cli::JobInfo> job;
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
  bool deaf_left = false;  // well, and none is left that can be asked
};
struct EndLearners {  // because of a failure, or because nobody is left to be served
  int grace_ms = 0;
};
struct AttemptOver {  // all learners have ended
  bool ask_why = false;
};
struct WhyKnown {
  std::optional<StopCause> by_slurm;  // its SIGTERM ended the learners, for this
};
struct Decided {  // after JudgeEnd, JudgeStopped and CheckNodes
  EndDecision::Action what = EndDecision::Action::kFail;
  bool sweep = false;        // agents were lost
  bool again = false;        // the attempt is begun anew, whatever the decision
  bool check = false;        // nodes are checked before a restart
  bool ask_version = false;  // what comes after the end depends on Slurm's version
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
  SaveTimes times;  // as measured by now; needed by events that may lead to a stop
};

// ---- actions

struct StartAttempt {  // agents, or those that wait; learners are new
  bool again = false;  // Decided::again
};
struct StartLearners {};  // all agents are there
struct GiveUpUnheard {};  // learners whose agents have not come count as ended
struct GiveUpAll {};      // nothing was heard of them since they were to end
struct StopAnswer {       // to StopAsked
  enum class Kind {
    kTaken,    // it is carried out now
    kLater,    // it is carried out when what is under way has been decided
    kAlready,  // another stop is under way
    kTooLate,  // the job is ending
  };
  uint64_t asker = 0;
  Kind kind = Kind::kTaken;
};
struct AskSlurm {};  // what it says of the job: SlurmSaid
struct WatchTimeLimit {
  int64_t end_ms = 0;
};
struct Say {
  std::string text;
};
struct SendRequest {
  int64_t request = 0;
  uint32_t kind = 0;
};
struct SendDecide {
  int64_t request = 0;
  uint32_t kind = 0;
  int64_t step = 0;
};
struct SendWithdraw {
  int64_t request = 0;
};
struct SignalLearners {
  int signal = 0;
};
struct KillLearners {
  int grace_ms = 0;
};
struct AskWhy {};        // whether Slurm ended the learners: WhyKnown
struct JudgeEnd {};      // Decided
struct JudgeStopped {};  // the same, of a stop before the next attempt
struct Sweep {};         // Swept
struct AskVersion {};    // VersionKnown
struct CheckNodes {};    // Decided
struct End {};           // as was decided: the last words; Settled
struct PutBack {         // BackInQueue
  bool hold = false;
};
struct AlreadyBack {};    // Slurm has put it back; Settled
struct HoldJob {};        // it is in the queue
struct KeepStartTime {};  // until Slurm ends us; Settled
struct PutBackFailed {};  // the job fails; Settled
struct Finish {};

using RunAction = std::variant<StartAttempt, StartLearners, GiveUpUnheard, GiveUpAll, StopAnswer, AskSlurm,
                               WatchTimeLimit, Say, SendRequest, SendDecide, SendWithdraw, SignalLearners, KillLearners,
                               AskWhy, JudgeEnd, JudgeStopped, Sweep, AskVersion, CheckNodes, End, PutBack, AlreadyBack,
                               HoldJob, KeepStartTime, PutBackFailed, Finish>;
using RunActions = std::vector<RunAction>;

// ---- the state

struct RunRules {
  bool under_slurm = false;
  int64_t grace_ms = 30000;  // SIGTERM -> SIGKILL for learners that cannot be asked
  int64_t signal_lead_s = 120;
  int64_t kill_wait_s = 30;
  int restart_count = 0;  // how often Slurm had put the job back when it started
  // The signal before the time limit is the user's own, and comes to dlrun: the learners save at it. Else it tells of
  // the time limit alone.
  bool saves_at_own_signal = false;
};

// What Slurm means by a signal that came at signal_ms (Unix time). job: as it says now; none: it does not answer.
NoticeReading read_signal(const RunRules& rules, int signal, int64_t signal_ms,
                          const std::optional<slurm_cli::JobInfo>& job, int64_t now_unix_ms);

struct Stop {
  StopCause cause = StopCause::kPause;
  std::string who;                     // text for people
  int signal = 0;                      // what was sent to us, 0 = none
  std::optional<int64_t> deadline_ms;  // Unix time
  bool save = true;
  bool local = false;  // at the node-local level alone
  std::string not_saved_reason;
  bool killing = false;   // the learners end because of it, unsaved
  bool presumed = false;  // Slurm has not said yet what its signal means
  bool late = false;      // asked for when this attempt was ending: meant for what comes after it
  bool hold = false;      // a pause is among what was asked for
};

// What Slurm is asked about a signal.
struct Question {
  bool open = false;
  int signal = 0;
  int64_t signal_ms = 0;  // Unix time at which it came
  bool presumed = false;  // the answer was not waited for
  // A SIGTERM that came while SIGUSR2 was asked about: Unix time, 0 = none. The answer may be older than it.
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

  // Of the attempt
  bool learners_started = false, all_started = false;
  std::vector<bool> gone;  // of those that decide (LaunchPlan::deciding()), once they have started
  StopAgreement agreement;
  bool stop_waits = false;    // for the save that is open
  int64_t kill_unix_ms = 0;   // kEnding: when the last of them is killed
  int64_t deaf_after_ms = 0;  // kEnding: awake time after which those that said nothing count as lost

  // After it
  Decided decided;
  bool is_decided = false, version_known = false, nodes_checked = false, overruled = false;
  bool hold = false, back_in_queue = false, killed = false;

  // Not of the attempts: request numbers never come twice.
  int64_t requests = 0;

  bool alive() const { return phase >= Phase::kStarting && phase <= Phase::kEnding; }  // an attempt is under way
  bool running() const { return phase == Phase::kRunning || phase == Phase::kStopping; }
  bool ending() const { return phase == Phase::kEnding; }
  bool finished() const { return phase >= Phase::kSettling; }
  bool may_greet() const { return phase == Phase::kStarting || (ending() && !learners_started); }
};

RunActions next(RunState* state, const RunEvent& event, const Moment& now);

}  // namespace dl::supervise
