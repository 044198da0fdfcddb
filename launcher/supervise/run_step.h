// SPDX-License-Identifier: Apache-2.0
// One call of next() (run_state.h): a handler for each event, in run_attempt.cpp, run_stop.cpp and run_after.cpp. For
// these files alone.
#pragma once

#include <string>

#include "launcher/supervise/run_state.h"

namespace dl::supervise {

class RunStep {
 public:
  RunStep(RunState* state, const Moment& now) : s_(*state), now_(now) {}
  RunActions take() { return std::move(out_); }

  // run_attempt.cpp
  void on(const Begin& begin);
  void on(const AgentsReady& ready);
  void on(const AllStarted& started);
  void on(const SaveDue& due);
  void on(const Reported& reported);
  void on(const Acted& acted);
  void on(const Gone& gone);
  void on(const EndLearners& end);
  void on(const AttemptOver& over);
  void on(const Tick& tick);

  // run_stop.cpp
  void on(const StopAsked& asked);
  void on(const Signalled& signalled);
  void on(const SlurmSaid& said);

  // run_after.cpp
  void on(const WhyKnown& why);
  void on(const Decided& decided);
  void on(const Swept& swept);
  void on(const VersionKnown& known);
  void on(const BackInQueue& back);
  void on(const Settled& settled);

 private:
  template <typename T>
  void act(T action) {
    out_.emplace_back(std::move(action));
  }
  void say(std::string text) { act(Say{std::move(text)}); }

  void start_attempt();
  void begin_agreement(uint32_t kind);
  void settle_agreement();
  void follow_waiting_stop();
  void stop_without_agreement();
  void kill(int64_t grace_ms);

  StopAnswer::Kind take_stop(StopAsked asked, bool presumed);
  StopAnswer::Kind stop_alive(StopAsked asked, bool presumed);
  StopAnswer::Kind stop_after_attempt(const StopAsked& asked);
  StopAnswer::Kind merge(const StopAsked& asked);
  void begin_stop();
  void drop_save(StopCause cause);
  void interrupted(int signal);
  void asked_by_slurm(int signal);
  void ask_slurm(int signal, int64_t signal_ms);
  void correct(const NoticeReading& reading);
  void presume();
  void keep_deadline();

  bool must_ask_why(const AttemptOver& over) const;
  bool is_overruled() const;
  void carry_out();

  RunState& s_;
  const Moment& now_;
  RunActions out_;
};

}  // namespace dl::supervise
