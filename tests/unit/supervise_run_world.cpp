// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/supervise_run_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

namespace dl::supervise::testing {
namespace {

constexpr int64_t kStart = 1'789'000'000'000;
constexpr int64_t kPatienceMs = 500;  // for Slurm's word about a SIGTERM
constexpr int kMostSteps = 4000;
using What = EndDecision::Action;

// What Slurm may say of the job.
const std::vector<slurm_cli::JobInfo>& jobs() {
  static const std::vector<slurm_cli::JobInfo> all = [] {
    std::vector<slurm_cli::JobInfo> made(6);
    made[0].state = "RUNNING";
    made[1].state = "COMPLETING";  // cancelled
    made[2].state = "PENDING";     // put back
    made[3].state = "PREEMPTED";
    made[4].state = "RUNNING";
    made[4].admin_comment = fmt::format("dl:1 yields=17@{}:0", kStart / 1000 + 90);
    made[5].state = "RUNNING";
    made[5].end_time = kStart / 1000 + 100;
    return made;
  }();
  return all;
}

const char* const kEvents[] = {"Begin",        "AgentsReady", "AllStarted", "StopAsked", "Signalled",
                               "SlurmSaid",    "SaveDue",     "Reported",   "Acted",     "Gone",
                               "EndLearners",  "AttemptOver", "WhyKnown",   "Decided",   "Swept",
                               "VersionKnown", "BackInQueue", "Settled",    "Tick"};

}  // namespace

RunWorld::RunWorld(const Choices& choices, bool trace) : choices_(choices), tracing_(trace) {
  now_.unix_ms = kStart;
  now_.awake_ms = 1'000'000;
  learners_.resize(static_cast<size_t>(1 + pick(3)));
  state_.rules.under_slurm = pick(4) != 1;
  state_.rules.kill_wait_s = pick(2) == 0 ? 30 : 10;
  state_.rules.grace_ms = pick(2) == 0 ? 30000 : 2000;
  deciding_ = pick(3) == 1 ? 1 : static_cast<int>(learners_.size());
  if (pick(2) == 1) now_.times = {20000, 400, pick(2) == 1 ? 1000U : 0U};
}

int RunWorld::pick(int n) {
  return at_ < choices_.size() ? choices_[at_++] % n : 0;
}

void RunWorld::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
  if (tracing_) trace_ += "  -- " + what + "\n";
}

void RunWorld::give(const RunEvent& event) {
  ++events_;
  const int answers = answers_;
  if (over_) return;
  const RunActions actions = next(&state_, event, now_);
  if (tracing_)
    trace_ += fmt::format("{:>7} {:<12} -> {}, {} actions\n", now_.unix_ms - kStart, kEvents[event.index()],
                          phase_name(state_.phase), actions.size());
  for (const RunAction& action : actions) std::visit([this](const auto& each) { did(each); }, action);
  if (std::holds_alternative<StopAsked>(event) != (answers_ == answers + 1) || answers_ > answers + 1)
    fail("each stop that is asked for has one answer");
  if (std::holds_alternative<Tick>(event)) check_tick();
  const auto step = state_.agreement.step();
  const auto word = words_.find(state_.agreement.request());
  if (step && (word == words_.end() || word->second != Word::kDecided)) fail("a save counts that was not decided");
  if (over_ != (state_.phase == Phase::kOver)) fail("it is over without a last action");
}

void RunWorld::check_tick() {
  if (!state_.alive()) return;
  const bool stopping = state_.stop.has_value();
  if (term_ms_ != 0 && now_.unix_ms - term_ms_ >= kPatienceMs && !stopping) fail("a SIGTERM was dropped");
  if (!stopping || !state_.stop->deadline_ms) return;
  const bool due = now_.unix_ms >= *state_.stop->deadline_ms - kPutBackMs;
  if (due && (!state_.ending() || state_.kill_unix_ms > now_.unix_ms)) fail("a deadline passed without a kill");
  if (due && kill_at_ms_ > now_.unix_ms) fail("learners have more time than the deadline leaves");
}

// ---- what the run does to the world

void RunWorld::did(const StartAttempt& /*action*/) {
  if (std::any_of(learners_.begin(), learners_.end(), [](const Learner& l) { return l.alive; }))
    fail("two attempts at once");
  if (awaited_ != Awaited::kNone) fail("an attempt begins while something is under way");
  if (promised_) fail("another attempt begins though a stop was promised");
  for (Learner& learner : learners_) {
    learner = Learner{};
    learner.alive = true;
    learner.deaf = chance(8);
    learner.attached = !chance(5);
    learner.step = pick(4);
  }
  kill_at_ms_ = 0;
  term_ms_ = 0;
}

void RunWorld::did(const StartLearners& /*action*/) {
  if (state_.phase != Phase::kRunning) fail("learners start in a phase that is not Running");
}

void RunWorld::did(const GiveUpUnheard& /*action*/) {
  for (Learner& learner : learners_) learner.alive = learner.alive && chance(3);  // those that have said hello
}

void RunWorld::did(const GiveUpAll& /*action*/) {
  for (Learner& learner : learners_) learner.alive = false;
}

void RunWorld::did(const StopAnswer& action) {
  ++answers_;
  const bool taken = action.kind == StopAnswer::Kind::kTaken || action.kind == StopAnswer::Kind::kLater;
  promised_ = promised_ || taken;
  if (taken && action.asker == 1) promised_hold_ = true;
}

void RunWorld::did(const AskSlurm& /*action*/) {
  ++questions_;
  if (questions_ > 1) fail("Slurm is asked twice at a time");
}

void RunWorld::did(const SendRequest& action) {
  if (action.request <= request_) fail("a request's number comes twice");
  for (size_t rank = 0; rank < static_cast<size_t>(deciding_); ++rank)
    if (words_.count(request_) != 0 && words_[request_] == Word::kDecided && learners_[rank].alive &&
        !learners_[rank].acted)
      fail("a request is made while a learner still acts on the one before");
  request_ = action.request;
  told_kind_ = action.kind;
  for (Learner& learner : learners_) learner.answered = learner.acted = false;
}

void RunWorld::did(const SendDecide& action) {
  if (action.request != request_ || words_.count(request_) != 0) fail("a request is decided twice, or out of turn");
  words_[request_] = Word::kDecided;
  told_kind_ = action.kind;
}

void RunWorld::did(const SendWithdraw& action) {
  if (action.request != request_ || words_.count(request_) != 0) fail("a save is decided, and then withdrawn");
  words_[request_] = Word::kWithdrawn;
  if (state_.stop) told_kind_ = ProgressPage::kExitWithoutSave;  // they are finishing, or killed
}

void RunWorld::did(const KillLearners& action) {
  const int64_t at = now_.unix_ms + action.grace_ms;
  kill_at_ms_ = kill_at_ms_ == 0 ? at : std::min(kill_at_ms_, at);
}

void RunWorld::did(const JudgeEnd& /*action*/) {
  awaited_ = Awaited::kDecision;
  if (by_kill_ && state_.rules.under_slurm && questions_ > 0)
    fail("a kill is judged before Slurm says whether it ends the job");
}

void RunWorld::did(const PutBack& action) {
  awaited_ = Awaited::kPutBack;
  held_ = action.hold;
}
void RunWorld::did(const HoldJob& /*action*/) {
  if (!state_.back_in_queue) fail("a job is held before it is in the queue");
  held_ = true;
}
void RunWorld::did(const Finish& /*action*/) {
  if (over_) fail("it finishes twice");
  over_ = true;
  if (promised_hold_ && !held_ && !ended_) fail("a pause was promised, and the job is not held");
}
void RunWorld::did(const End& /*action*/) {
  awaited_ = Awaited::kSettle;
  ended_ = true;
}
void RunWorld::did(const PutBackFailed& /*action*/) {
  awaited_ = Awaited::kSettle;
  ended_ = true;
}

// ---- what the world does to the run

void RunWorld::pass_time() {
  constexpr int64_t kMs[] = {50, 50, 600, 2000, 6000, 31000};
  const int64_t passes = kMs[pick(6)];
  now_.unix_ms += passes;
  now_.awake_ms += passes;
  if (kill_at_ms_ != 0 && now_.unix_ms >= kill_at_ms_)
    for (size_t rank = 0; rank < learners_.size(); ++rank)
      if (learners_[rank].alive && !learners_[rank].deaf) learner_ends(rank, false);
  give(Tick{});
}

void RunWorld::stop() {
  constexpr StopCause kCauses[] = {StopCause::kPause, StopCause::kTimeLimit, StopCause::kLeaseLost, StopCause::kYield};
  StopAsked asked;
  asked.cause = kCauses[pick(4)];
  asked.who = "somebody";
  asked.asker = asked.cause == StopCause::kPause ? 1 : 0;
  if (asked.cause == StopCause::kTimeLimit || asked.cause == StopCause::kYield)
    asked.deadline_ms = now_.unix_ms + 1000 * pick(60);
  give(asked);
}

void RunWorld::signal() {
  constexpr int kSignals[] = {SIGTERM, SIGUSR2, SIGTERM, SIGINT, SIGHUP};
  const int signal = kSignals[pick(5)];
  const Question& question = state_.question;
  const bool quiet = !question.open && question.signal == SIGTERM && now_.awake_ms - question.answered_ms < 1500;
  if (signal == SIGTERM && state_.alive() && !quiet && !state_.stop && term_ms_ == 0) term_ms_ = now_.unix_ms;
  give(Signalled{signal});
}

void RunWorld::slurm_answers() {
  if (questions_ == 0) return pass_time();
  --questions_;
  if (state_.question.signal == SIGTERM) term_ms_ = 0;
  const int said = pick(8);
  SlurmSaid answer;
  if (said < 6) answer.job = jobs()[static_cast<size_t>(said)];
  give(answer);
}

void RunWorld::attempt_goes_on() {
  if (state_.phase == Phase::kStarting) return give(AgentsReady{deciding_});
  if (state_.learners_started && !state_.all_started) return give(AllStarted{});
  pass_time();
}

void RunWorld::learner_reports(size_t rank) {
  Learner& learner = learners_[rank];
  const bool asked = request_ != 0 && words_.count(request_) == 0;
  if (!learner.alive || !asked || learner.answered) return pass_time();
  learner.answered = true;
  StepAnswer answer;
  answer.attached = learner.attached;
  answer.state = chance(9) ? ProgressPage::kFinished : ProgressPage::kTraining;
  answer.step = learner.step;
  give(Reported{static_cast<int>(rank), request_, answer});
}

void RunWorld::learner_acts(size_t rank) {
  Learner& learner = learners_[rank];
  const auto word = words_.find(request_);
  if (!learner.alive || learner.acted || word == words_.end() || word->second != Word::kDecided) return pass_time();
  learner.acted = true;
  give(Acted{static_cast<int>(rank), request_});
  if (told_kind_ != ProgressPage::kSave) learner_ends(rank, false);
}

void RunWorld::learner_ends(size_t rank, bool fails) {
  Learner& learner = learners_[rank];
  if (!learner.alive || !runs()) return pass_time();
  learner.alive = false;
  Gone gone;
  gone.rank = static_cast<int>(rank);
  int left = 0, attached = 0;
  for (const Learner& other : learners_) {
    left += other.alive ? 1 : 0;
    attached += other.alive && other.attached ? 1 : 0;
  }
  gone.deaf_left = !fails && left > 0 && attached == 0;
  give(gone);
  if (fails) give(EndLearners{500});
}

void RunWorld::attempt_ends() {
  AttemptOver over;
  const int how = pick(4);
  over.job_known = how != 1;
  over.by_sigterm = how == 2;
  over.by_kill = by_kill_ = how == 3;
  give(over);
}

void RunWorld::step() {
  const bool nobody = std::none_of(learners_.begin(), learners_.end(), [](const Learner& l) { return l.alive; });
  if (runs() && nobody) return attempt_ends();
  const size_t rank = static_cast<size_t>(pick(static_cast<int>(learners_.size())));
  switch (pick(14)) {
    case 1:
      return stop();
    case 2:
      return signal();
    case 3:
    case 4:
      return slurm_answers();
    case 5:
      return give(SaveDue{});
    case 6:
    case 7:
      return learner_reports(rank);
    case 8:
      return learner_acts(rank);
    case 9:
      return learner_ends(rank, false);
    case 10:
      return learner_ends(rank, true);
    case 11:
      return after_goes_on();
    case 12:
      return attempt_goes_on();
    case 13:
      return chance(4) ? die() : pass_time();
    default:
      return runs() ? pass_time() : after_goes_on();
  }
}

// As the policy decides (restart_policy.h): with a stop of this attempt there is no restart.
Decided RunWorld::decision(bool stopped) {
  Decided decided;
  const bool stop = stopped || (state_.stop && !state_.stop->late);
  if (stop) {
    const StopCause cause = state_.stop->cause;
    const bool goes_back =
        cause == StopCause::kPreemption || cause == StopCause::kYield || cause == StopCause::kTimeLimit;
    decided.what = What::kFail;
    if (goes_back) decided.what = What::kRequeue;
    if (cause == StopCause::kPause) decided.what = state_.rules.under_slurm ? What::kHold : What::kStopped;
    if (cause == StopCause::kInterrupt) decided.what = What::kStopped;
    if (cause == StopCause::kSlurmRequeue) decided.what = What::kAlreadyRequeued;
    if (!stopped && chance(6)) decided.what = What::kRequeue;  // a node was lost meanwhile
    if (!stopped && chance(6)) decided.what = What::kComplete;
  } else {
    constexpr What kWhat[] = {What::kComplete, What::kRestart, What::kRestart,
                              What::kRequeue,  What::kHold,    What::kFail};
    decided.what = kWhat[pick(6)];
    decided.again = chance(9);
    decided.check = chance(3);
  }
  decided.sweep = !stopped && chance(3);
  decided.ask_version = chance(4);
  return decided;
}

void RunWorld::after_goes_on() {
  const Awaited answer = std::exchange(awaited_, Awaited::kNone);
  switch (answer) {
    case Awaited::kNone:
      if (state_.phase == Phase::kIdle) return chance(3) ? give(Decided{What::kRestart}) : give(Begin{});
      return pass_time();
    case Awaited::kWhy:
      if (questions_ > 0) slurm_answers();  // Slurm's answers come in the order of the questions
      return give(WhyKnown{chance(4) ? std::optional(StopCause::kPreemption) : std::nullopt});
    case Awaited::kDecision:
      return give(decision(false));
    case Awaited::kStopDecision:
      return give(decision(true));
    case Awaited::kSweep:
      return give(Swept{});
    case Awaited::kVersion:
      return give(VersionKnown{});
    case Awaited::kCheck: {
      constexpr What kWhat[] = {What::kRestart, What::kRequeue, What::kFail};
      return give(Decided{kWhat[pick(3)]});
    }
    case Awaited::kPutBack:
      return give(BackInQueue{!chance(6)});
    case Awaited::kSettle:
      return give(Settled{});
  }
}

// dlrun is killed, its learners end, and another dlrun takes its place with what is recorded of the dead one.
void RunWorld::die() {
  if (state_.phase == Phase::kIdle) return pass_time();
  if (tracing_) trace_ += fmt::format("{:>7} dlrun dies\n", now_.unix_ms - kStart);
  const std::optional<record::AcceptedStop> stop = accepted_stop(state_);
  const OpenSignal signal = open_signal(state_);
  if (questions_ > 0 && signal.signal == 0) fail("Slurm is asked about a signal that is not handed over");
  if (term_ms_ != 0 && questions_ > 0 && !stop && (signal.signal != SIGTERM || signal.unix_ms > term_ms_))
    fail("a SIGTERM is not handed over with its time");
  const bool decided = state_.phase == Phase::kPuttingBack || state_.phase == Phase::kSettling;
  What what = state_.decided.what;
  const bool refused = state_.phase == Phase::kSettling && (what == What::kRequeue || what == What::kHold);
  if (refused) what = What::kFail;
  const RunRules rules = state_.rules;
  state_ = RunState{};
  state_.rules = rules;
  for (Learner& learner : learners_) learner.alive = false;
  awaited_ = Awaited::kNone;
  questions_ = 0;
  kill_at_ms_ = request_ = term_ms_ = 0;
  told_kind_ = 0;
  by_kill_ = false;
  words_.clear();
  if (stop)
    for (const StopAsked& asked : ask_again(*stop)) give(asked);
  if (rules.under_slurm) ask_for_its_stop(signal);
  if (decided) return give(Decided{what});
  constexpr What kWhat[] = {What::kRestart, What::kFail, What::kHold, What::kRequeue};
  give(Decided{state_.stop ? What::kRestart : kWhat[pick(4)]});
}

// What Slurm sends a signal for can be seen in the job, whether the dead dlrun had got the signal or not
// (Supervisor::ask_for_its_stop()).
void RunWorld::ask_for_its_stop(const OpenSignal& open) {
  const int signal = open.signal != 0 ? open.signal : SIGUSR2;
  const int64_t signal_ms = open.signal != 0 ? open.unix_ms : now_.unix_ms;
  std::optional<slurm_cli::JobInfo> job;
  const int said = pick(8);
  if (said < 6) job = jobs()[static_cast<size_t>(said)];
  const NoticeReading reading = read_signal(state_.rules, signal, signal_ms, job, now_.unix_ms);
  if (reading.kind != NoticeReading::Kind::kStop) return;
  give(StopAsked{reading.cause, reading.deadline_ms, open.signal, stop_cause_name(reading.cause), 0});
  if (!state_.stop) fail("a stop that Slurm shows is not taken over");
}

// Everybody does what is to be done; nothing new comes.
void RunWorld::wind_down() {
  for (int round = 0; round < 60 && !over_ && failure_.empty(); ++round) {
    for (size_t rank = 0; rank < learners_.size() && runs(); ++rank) {
      learner_reports(rank);
      learner_acts(rank);
    }
    if (questions_ > 0 && round > 3) slurm_answers();
    if (round == 8 && state_.running() && state_.stop) {
      if (words_.count(request_) == 0) fail("all have answered, and it is not decided when to stop");
      if (told_kind_ == ProgressPage::kSave) fail("the learners train on, though a stop was asked for");
    }
    if (round > 8 && state_.running() && !state_.agreement.open())  // they come to their end, with a stop or without
      for (size_t rank = 0; rank < learners_.size(); ++rank)
        if (!learners_[rank].deaf) learner_ends(rank, learners_.size() > 1 && rank == 0 && round > 20);
    const bool nobody = std::none_of(learners_.begin(), learners_.end(), [](const Learner& l) { return l.alive; });
    if (runs() && nobody)
      attempt_ends();
    else if (runs())
      attempt_goes_on();
    else
      after_goes_on();
    if (round > 20 && state_.running()) give(EndLearners{500});  // its agents are lost at last
    now_.unix_ms += 3000;
    now_.awake_ms += 3000;
    give(Tick{});
    if (kill_at_ms_ != 0 && now_.unix_ms >= kill_at_ms_)
      for (Learner& learner : learners_) learner.alive = learner.alive && learner.deaf && runs();
  }
  if (!over_) fail(fmt::format("the run does not come to an end: {}", phase_name(state_.phase)));
}

std::string RunWorld::play() {
  give(Tick{});
  for (int steps = 0; at_ < choices_.size() && steps < kMostSteps && failure_.empty() && !over_; ++steps) step();
  if (failure_.empty() && !over_) wind_down();
  return failure_;
}

}  // namespace dl::supervise::testing
