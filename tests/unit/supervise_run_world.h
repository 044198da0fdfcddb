// SPDX-License-Identifier: Apache-2.0
// A world around the states of a run: learners, agents, Slurm and people, which do anything that they may do, in an
// order that a list of choices gives. The world checks what must hold whatever they do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/supervise/run_state.h"
#include "launcher/supervise/succession.h"

namespace dl::supervise::testing {

using Choices = std::vector<uint8_t>;

class RunWorld {
 public:
  // trace: keeps as text what happened. The choices must outlive this.
  explicit RunWorld(const Choices& choices, bool trace = false);

  // Plays the choices, then lets everything come to its end. Returns what did not hold, or an empty text.
  std::string play();
  const std::string& trace() const { return trace_; }
  int events() const { return events_; }

 private:
  struct Learner {
    bool alive = false, deaf = false, answered = false, acted = false;
    bool attached = true;
    int64_t step = 0;
  };
  int pick(int n);
  bool chance(int one_in) { return pick(one_in) == 1; }
  void give(const RunEvent& event);
  void check_tick();
  void fail(const std::string& what);

  void step();
  void pass_time();
  void stop();
  void signal();
  void slurm_answers();
  void attempt_goes_on();
  void learner_reports(size_t rank);
  void learner_acts(size_t rank);
  void learner_ends(size_t rank, bool fails);
  void attempt_ends();
  void after_goes_on();
  void wind_down();
  void die();
  void ask_for_its_stop(const OpenSignal& open);
  Decided decision(bool stopped);
  bool runs() const { return state_.phase >= Phase::kStarting && state_.phase <= Phase::kEnding; }

  void did(const StartAttempt& action);
  void did(const StartLearners& action);
  void did(const GiveUpUnheard& action);
  void did(const GiveUpAll& action);
  void did(const StopAnswer& action);
  void did(const AskSlurm& action);
  void did(const SendRequest& action);
  void did(const SendDecide& action);
  void did(const SendWithdraw& action);
  void did(const KillLearners& action);
  void did(const PutBack& action);
  void did(const HoldJob& action);
  void did(const Finish& action);
  void did(const AskWhy& /*action*/) { awaited_ = Awaited::kWhy; }
  void did(const JudgeEnd& action);
  void did(const JudgeStopped& /*action*/) { awaited_ = Awaited::kStopDecision; }
  void did(const Sweep& /*action*/) { awaited_ = Awaited::kSweep; }
  void did(const AskVersion& /*action*/) { awaited_ = Awaited::kVersion; }
  void did(const CheckNodes& /*action*/) { awaited_ = Awaited::kCheck; }
  void did(const End& action);
  void did(const AlreadyBack& /*action*/) { awaited_ = Awaited::kSettle; }
  void did(const KeepStartTime& /*action*/) { awaited_ = Awaited::kSettle; }
  void did(const PutBackFailed& action);
  template <typename Other>
  void did(const Other& /*action*/) {}  // nothing follows from it

  const Choices& choices_;
  size_t at_ = 0;
  bool tracing_;
  std::string trace_, failure_;
  int events_ = 0;

  RunState state_;
  Moment now_;
  std::vector<Learner> learners_;
  int deciding_ = 1;
  int64_t kill_at_ms_ = 0;  // 0: not killed
  bool by_kill_ = false;    // the last attempt
  // What was asked of the world and not answered yet.
  enum class Awaited { kNone, kWhy, kDecision, kStopDecision, kSweep, kVersion, kCheck, kPutBack, kSettle };
  Awaited awaited_ = Awaited::kNone;
  int questions_ = 0, answers_ = 0;
  int64_t request_ = 0;  // the newest
  enum class Word { kNone, kDecided, kWithdrawn };
  std::map<int64_t, Word> words_;
  uint32_t told_kind_ = 0;  // of the newest request
  int64_t term_ms_ = 0;     // a SIGTERM that nobody has answered for
  bool promised_ = false, promised_hold_ = false, overridden_ = false, held_ = false, ended_ = false;
  bool over_ = false;
};

}  // namespace dl::supervise::testing
