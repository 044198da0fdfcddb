// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/end_judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/contract/exit_codes.h"
#include "launcher/record/run_memory.h"
#include "launcher/supervise/succession.h"

namespace dl::supervise {
namespace {

using Action = EndDecision::Action;

constexpr size_t kShownLines = 10;               // of the log of the learner that failed first
constexpr std::string_view kPlainCode = "C201";  // a crash: the exit code says as much as the class

bool by_sigterm(const std::optional<Failure>& cause) {
  return cause && cause->kind == Failure::Kind::kSignal && cause->signal == SIGTERM;
}

}  // namespace

AttemptOver EndJudge::over() const {
  const std::optional<Failure> cause = from_.attempt->cause();
  AttemptOver over;
  over.job_known = from_.slurm->info().has_value();
  over.by_sigterm = by_sigterm(cause);
  over.by_kill = cause && is_kill(*cause);
  return over;
}

WhyKnown EndJudge::why(int64_t signal_ms, int64_t now_unix_ms) const {
  const std::optional<slurm_cli::JobInfo>& known = from_.slurm->info();
  const NoticeReading reading = read_signal(from_.state->rules, SIGTERM, signal_ms, known, now_unix_ms);
  const bool slurms = reading.kind != NoticeReading::Kind::kStop || reading.cause != StopCause::kInterrupt;
  WhyKnown why;
  if (known && by_sigterm(from_.attempt->cause()) && slurms) why.by_slurm = reading.cause;
  return why;
}

AttemptEnd EndJudge::attempt_end(int64_t now_ms, int64_t now_unix_ms) const {
  const std::optional<Stop>& stop = from_.state->stop;
  const std::vector<Learner>& learners = from_.attempt->learners();
  AttemptEnd end;
  end.failure = from_.attempt->cause();
  if (end.failure) end.failure_class = classify(*end.failure, from_.site->failures);
  const int64_t failed_ms = end.failure ? now_unix_ms - (now_ms - end.failure->at_ms) : 0;
  const bool slurms_kill =
      stop && end.failure && !from_.nodes->any_lost() && is_slurms_kill(*end.failure, failed_ms, stop->slurm_ends_ms);
  if (stop && (!stop->late || by_sigterm(end.failure) || slurms_kill)) end.stop = stop->cause;
  end.saved_step = from_.attempt->newest_saved_step();
  end.all_finished = std::all_of(learners.begin(), learners.end(), [](const Learner& l) { return l.exit == 0; }) &&
                     from_.attempt->failures().empty() && !(stop && stop->killing);
  const bool nobody_failed = std::all_of(learners.begin(), learners.end(),
                                         [](const Learner& l) { return l.exit == 0 || l.exit == kExitSaved; });
  const bool anybody_saved =
      std::any_of(learners.begin(), learners.end(), [](const Learner& l) { return l.exit == kExitSaved; });
  // Once the checkpoint of the agreed train step is committed, a learner that fails while it ends, because its peers
  // are gone, does not matter.
  const std::optional<int64_t> agreed = from_.state->agreement.step();
  const bool committed = stop && anybody_saved && agreed && end.saved_step >= *agreed;
  if (committed) end.failure.reset();
  end.all_saved = stop && ((nobody_failed && anybody_saved) || committed);
  if (stop) end.not_saved_reason = stop->not_saved_reason;
  end.killed_by_slurm = slurms_kill && end.failure;
  if (end.killed_by_slurm && (stop->late || end.not_saved_reason.empty()))
    end.not_saved_reason = killed_before_saved(failed_ms - stop->slurm_ends_ms);
  return end;
}

RestartLimits EndJudge::limits() const {
  const plan::LaunchPlan& plan = from_.nodes->plan();
  RestartLimits limits;
  limits.restarts_done = from_.journal->memory().restarts;
  limits.restarts_max = plan.restarts;
  limits.loop_guard = from_.site->loop_guard;
  limits.without_progress = attempts_without_progress(from_.journal->events());
  limits.measurable = plan.checkpoint.has_value() || from_.attempt->newest_saved_step() >= 0;
  limits.can_requeue = from_.slurm->can_requeue();
  return limits;
}

// The event for the present decision, without another sweep or check of nodes.
Decided EndJudge::decided() const {
  Decided decided;
  decided.what = decision_.action;
  decided.by_slurm = decision_.by_slurm;
  decided.ask_version = may_come_once_more() && !from_.slurm->version();
  return decided;
}

// Some builds of PyTorch (Debian 13's, for one) have no libuv. Their learners fail right after their start, so the
// attempt begins anew, once, with a store without it at learner 0, and no restart is counted.
bool EndJudge::needs_other_store(const FailureClass& its) const {
  return its.name == kNoLibuv && from_.nodes->store_host() != record::kStoreWithoutLibuv;
}

Decided EndJudge::end(int64_t now_ms, int64_t now_unix_ms) {
  const AttemptEnd end = attempt_end(now_ms, now_unix_ms);
  RestartLimits limits = this->limits();
  limits.node_lost = from_.nodes->any_lost();
  limits.rest_suffices = limits.node_lost && from_.nodes->rest_suffices();
  if (end.failure) {
    const auto done = from_.journal->memory().class_restarts.find(end.failure_class.name);
    limits.class_restarts = done != from_.journal->memory().class_restarts.end() ? done->second : 0;
    limits.without_data = attempts_without_data(from_.journal->events());
    limits.same_failure = attempts_with(failure_signature(*end.failure, end.failure_class), from_.journal->events());
  }
  decision_ = decide_end(end, limits);
  Decided decided = this->decided();
  // What Slurm is killing needs no sweep, and Slurm starts no further step of such a job.
  decided.sweep = from_.attempt->agent_lost() && !end.killed_by_slurm;
  decided.again = end.failure && !end.stop && needs_other_store(end.failure_class);
  decided.check = decision_.action == Action::kRestart && !decision_.other_nodes && from_.checks_nodes &&
                  from_.nodes->plan().under_slurm && blames_nodes(failure_class());
  return decided;
}

Decided EndJudge::stopped(int64_t now_ms, int64_t now_unix_ms) {
  AttemptEnd end = attempt_end(now_ms, now_unix_ms);
  end.failure.reset();
  end.all_finished = false;
  end.stop = from_.state->stop->cause;
  decision_ = decide_end(end, limits());
  return decided();
}

Decided EndJudge::nodes_checked(const std::vector<std::string>& bad) {
  if (!bad.empty()) {
    from_.nodes->found_bad(bad);
    RestartLimits limits;
    limits.can_requeue = from_.slurm->can_requeue();
    limits.measurable = this->limits().measurable;
    decision_ = decide_without_bad(std::move(decision_), bad, from_.nodes->rest_suffices(), limits);
  }
  return decided();
}

Decided EndJudge::after_death(const Failure& death, const guard::Predecessor& before, bool* goes_on) {
  RestartLimits limits = this->limits();
  limits.restarts_done = 0;
  limits.measurable = from_.nodes->plan().checkpoint.has_value();
  limits.node_lost = from_.nodes->any_lost();  // only where the rest of the allocation does not suffice
  limits.stop_asked = from_.state->stop.has_value();
  const auto known = decided_before(from_.journal->memory(), from_.journal->events(), death.text);
  *goes_on = known.has_value();
  decision_ = known ? *known : decide_after_death(death, before.last, limits);
  const bool back = from_.state->stop && from_.state->stop->cause == StopCause::kSlurmRequeue;
  if (known && back && decision_.action == Action::kHold) decision_.action = Action::kAlreadyRequeued;
  return decided();
}

int EndJudge::exit_status() const {
  const std::optional<Stop>& stop = from_.state->stop;
  const bool by_signal = decision_.action == Action::kStopped && decision_.exit_status == kExitNotSaved &&
                         !from_.nodes->plan().under_slurm && stop && stop->signal != 0;
  return by_signal ? 128 + stop->signal : decision_.exit_status;
}

std::optional<Failure> EndJudge::cause() const {
  if (decision_.action == Action::kComplete || decision_.by_slurm) return std::nullopt;
  return from_.attempt->cause();
}

FailureClass EndJudge::failure_class() const {
  const auto its = cause();
  return its ? classify(*its, from_.site->failures) : FailureClass{};
}

bool EndJudge::may_come_once_more() const {
  const Action action = decision_.action;
  const bool ends = action == Action::kComplete || action == Action::kFail || action == Action::kStopped;
  return ends && from_.slurm->may_be_requeued() && from_.journal->marked_preempted();
}

std::string EndJudge::failure_text(const std::string& name, bool quiet, const std::string& log) const {
  const auto its = cause();
  std::string text = name + ": " + decision_.reason;
  if (!its || its->kind == Failure::Kind::kNotStarted || its->kind == Failure::Kind::kData) return text + "\n";
  const FailureClass of = failure_class();
  const std::string class_name = format_class(of);
  if (of.code != kPlainCode && decision_.reason.find(class_name) == std::string::npos) text += "; class " + class_name;
  if (its->kind == Failure::Kind::kNoAgent || its->kind == Failure::Kind::kLauncher) return text + "\n";
  text += fmt::format("; its output: {}\n", log);
  if (from_.nodes->plan().world_size() == 1 && !quiet) return text;
  const auto& lines = its->last_lines;
  for (size_t i = lines.size() - std::min(lines.size(), kShownLines); i < lines.size(); ++i)
    text += fmt::format("{}:   | {}\n", name, lines[i]);
  return text;
}

}  // namespace dl::supervise
