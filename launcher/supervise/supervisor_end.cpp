// SPDX-License-Identifier: Apache-2.0
// What comes after an attempt: a restart, a return to the queue, a hold, or the end of the run.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <utility>

#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/contract/env_names.h"
#include "common/contract/exit_codes.h"
#include "common/process/descendants.h"
#include "launcher/protocol/progress_file.h"
#include "launcher/supervise/once_more.h"
#include "launcher/supervise/repeat.h"
#include "launcher/supervise/succession.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

using record::JobState;

constexpr int64_t kSettleLimitMs = 20000;  // for the last comment to reach slurmctld
constexpr int64_t kSettleCancelledMs = 1000;
constexpr size_t kShownLines = 10;               // of the log of the learner that failed first
constexpr std::string_view kPlainCode = "C201";  // a crash: the exit code says as much as the class

bool by_sigterm(const std::optional<Failure>& cause) {
  return cause && cause->kind == Failure::Kind::kSignal && cause->signal == SIGTERM;
}

}  // namespace

AttemptOver Supervisor::attempt_over() const {
  const std::optional<Failure> cause = attempt_.cause();
  AttemptOver over;
  over.job_known = slurm_->info().has_value();
  over.by_sigterm = by_sigterm(cause);
  over.by_kill = cause && is_kill(*cause);
  return over;
}

AttemptEnd Supervisor::attempt_end() const {
  const std::optional<Stop>& stop = state_.stop;
  AttemptEnd end;
  end.failure = attempt_.cause();
  if (end.failure) end.failure_class = classify(*end.failure, site_.failures);
  const int64_t failed_ms = end.failure ? unix_ms() - (awake_ms() - end.failure->at_ms) : 0;
  const bool slurms_kill =
      stop && end.failure && !nodes_.any_lost() && is_slurms_kill(*end.failure, failed_ms, stop->slurm_ends_ms);
  if (stop && (!stop->late || by_sigterm(end.failure) || slurms_kill)) end.stop = stop->cause;
  end.saved_step = attempt_.newest_saved_step();
  end.all_finished = std::all_of(attempt_.learners().begin(), attempt_.learners().end(),
                                 [](const Learner& l) { return l.exit == 0; }) &&
                     attempt_.failures().empty() && !(stop && stop->killing);
  bool nobody_failed = std::all_of(attempt_.learners().begin(), attempt_.learners().end(),
                                   [](const Learner& l) { return l.exit == 0 || l.exit == kExitSaved; });
  bool anybody_saved = std::any_of(attempt_.learners().begin(), attempt_.learners().end(),
                                   [](const Learner& l) { return l.exit == kExitSaved; });
  // Once the checkpoint of the agreed train step is committed, a learner that fails while it ends, because its peers
  // are gone, does not matter.
  bool committed = stop && anybody_saved && state_.agreement.step() && end.saved_step >= *state_.agreement.step();
  if (committed) end.failure.reset();
  end.all_saved = stop && ((nobody_failed && anybody_saved) || committed);
  if (stop) end.not_saved_reason = stop->not_saved_reason;
  end.killed_by_slurm = slurms_kill && end.failure;
  if (end.killed_by_slurm && (stop->late || end.not_saved_reason.empty()))
    end.not_saved_reason = killed_before_saved(failed_ms - stop->slurm_ends_ms);
  return end;
}

void Supervisor::perform(const AskWhy& /*ask*/) {
  slurm_->ask([this, signal_ms = unix_ms()](const SlurmJob::Answer& /*job*/) {
    const std::optional<slurm_cli::JobInfo>& known = slurm_->info();
    const NoticeReading reading = read_signal(state_.rules, SIGTERM, signal_ms, known, unix_ms());
    const bool slurms = reading.kind != NoticeReading::Kind::kStop || reading.cause != StopCause::kInterrupt;
    WhyKnown why;
    if (known && by_sigterm(attempt_.cause()) && slurms) why.by_slurm = reading.cause;
    handle(why);
  });
}

RestartLimits Supervisor::restart_limits() const {
  RestartLimits limits;
  limits.restarts_done = memory_.restarts;
  limits.restarts_max = plan().restarts;
  limits.loop_guard = site_.loop_guard;
  limits.without_progress = attempts_without_progress(journal_->events());
  limits.measurable = plan().checkpoint.has_value() || attempt_.newest_saved_step() >= 0;
  limits.can_requeue = slurm_->can_requeue();
  return limits;
}

void Supervisor::perform(const JudgeEnd& /*judge*/) {
  const AttemptEnd end = attempt_end();
  RestartLimits limits = restart_limits();
  limits.node_lost = nodes_.any_lost();
  limits.rest_suffices = limits.node_lost && nodes_.rest_suffices();
  if (end.failure) {
    auto done = memory_.class_restarts.find(end.failure_class.name);
    limits.class_restarts = done != memory_.class_restarts.end() ? done->second : 0;
    limits.same_failure = attempts_with(failure_signature(*end.failure, end.failure_class), journal_->events());
  }
  Decided decided;
  // What Slurm is killing needs no sweep, and Slurm starts no further step of such a job.
  decided.sweep = attempt_.agent_lost() && !end.killed_by_slurm;
  decided.again = end.failure && !end.stop && needs_other_store(end.failure_class);
  decide(decide_end(end, limits), decided);
}

// Judges the attempt again as stopped: the decision was to go on, but a stop has been asked for since.
void Supervisor::perform(const JudgeStopped& /*judge*/) {
  AttemptEnd end = attempt_end();
  end.failure.reset();
  end.all_finished = false;
  end.stop = state_.stop->cause;
  decide(decide_end(end, restart_limits()), {});
}

// Keeps the decision, and passes it to the states of the run.
void Supervisor::decide(EndDecision decision, Decided decided) {
  decision_ = std::move(decision);
  decided.what = decision_.action;
  decided.by_slurm = decision_.by_slurm;
  decided.check = decision_.action == EndDecision::Action::kRestart && options_.check && plan().under_slurm &&
                  blames_nodes(class_of_end());
  decided.ask_version = is_put_back_once_more() && !slurm_->version();
  handle(decided);
}

// The event for the present decision, without another sweep or check of nodes.
Decided Supervisor::decided_of_decision() const {
  Decided decided;
  decided.what = decision_.action;
  decided.by_slurm = decision_.by_slurm;
  decided.ask_version = is_put_back_once_more() && !slurm_->version();
  return decided;
}

// The failure that the decision is about, if any, and its class.
std::optional<Failure> Supervisor::cause_of_end() const {
  if (decision_.action == EndDecision::Action::kComplete || decision_.by_slurm) return std::nullopt;
  return attempt_.cause();
}
FailureClass Supervisor::class_of_end() const {
  const auto cause = cause_of_end();
  return cause ? classify(*cause, site_.failures) : FailureClass{};
}

void Supervisor::perform(const Sweep& /*sweep*/) {
  sweep(attempt_.facts().run_id, [this] { handle(Swept{}); });
}

// Ends what is left, on any node, of an attempt whose agents may not have ended their learners.
void Supervisor::sweep(const std::string& run_id, std::function<void()> done) {
  std::string mark = std::string(env::kRunId) + "=" + run_id;
  if (!plan().under_slurm) {
    sweep_marked(mark);
    protocol::remove_orphaned_pages();
    return done();
  }
  if (nodes_.any_lost()) return done();
  const std::vector<std::string> names = nodes_.names();
  std::string count = std::to_string(names.size());
  std::vector<std::string> argv = {"srun",
                                   "--mpi=none",
                                   "--job-name=sweep",
                                   "--nodes=" + count,
                                   "--ntasks=" + count,
                                   "--ntasks-per-node=1",
                                   "--nodelist=" + compress_hostlist(names),
                                   "--overlap",
                                   "--input=none",
                                   "--export=ALL",
                                   "--quiet",
                                   options_.agent_path,
                                   "--sweep",
                                   mark};
  slurm_->run_step(argv, std::chrono::seconds(20), std::move(done));
}

// Whether this end of the job may be one after which Slurm starts it once more (once_more.h).
bool Supervisor::is_put_back_once_more() const {
  using Action = EndDecision::Action;
  const Action action = decision_.action;
  const bool ends = action == Action::kComplete || action == Action::kFail || action == Action::kStopped;
  return ends && slurm_->may_be_requeued() && journal_->marked_preempted();
}

void Supervisor::perform(const AskVersion& /*ask*/) {
  slurm_->ask_version([this] { handle(VersionKnown{}); });
}

void Supervisor::perform(const End& /*end*/) {
  using Action = EndDecision::Action;
  remember([this](record::RunMemory* memory) { memory->decided = decided_text(decision_.action); });
  if (is_put_back_once_more() && slurm_->version() && puts_back_once_more(*slurm_->version())) {
    journal_->once_more(plan().slurm_restart_count + 1, command_text(plan().command));
    voice_.say("Slurm puts a job that was preempted back once more after its end; that start will run nothing");
  }
  const int64_t step = attempt_.newest_saved_step();
  const double seconds = static_cast<double>(awake_ms() - attempt_.started_ms()) / 1000;
  int status = decision_.exit_status;
  const std::string lost = watch_.log_losses().summary(journal_->lost());
  const std::string reason = decision_.reason + (lost.empty() ? "" : "; " + lost);
  std::string words;
  if (decision_.action == Action::kComplete) {
    journal_->job(JobState::kCompleted, reason, step, "000", 0);
    // A dlrun that takes over at the end has begun no attempt.
    if (!options_.quiet && attempt_.started_ms() == 0)
      words = voice_.name() + ": " + reason + "\n";
    else if (!options_.quiet)
      words = fmt::format("{}: completed in {}\n", voice_.name(),
                          seconds < 60 ? fmt::format("{:.1f} s", seconds)
                                       : format_duration(std::chrono::seconds(std::lround(seconds))));
  } else if (decision_.action == Action::kStopped) {
    journal_->job(JobState::kHalted, reason, step, "", status);
    if (!options_.quiet) words = voice_.name() + ": " + decision_.reason + "\n";
    // Outside Slurm, a Ctrl-C without a save exits with 128 + the signal, as shells expect.
    if (status == kExitNotSaved && !plan().under_slurm && state_.stop && state_.stop->signal != 0)
      status = 128 + state_.stop->signal;
  } else {
    journal_->job(JobState::kFailed, reason, step, class_code(), status);
    words = failure_text(decision_.reason, cause_of_end(), class_of_end());
  }
  // Summed up again, because writing the last event may have failed, too.
  if (const std::string all = watch_.log_losses().summary(journal_->lost()); !all.empty())
    words += voice_.name() + ": " + all + "\n";
  settle(status, std::move(words));
}

// The code of the class of the failure, or an empty text if nothing failed.
std::string Supervisor::class_code() const {
  return cause_of_end() ? class_of_end().code : "";
}

// Another attempt after a failure.
void Supervisor::restart() {
  if (decision_.without_lost) return go_on_without_lost(decision_.reason);
  remember([&](record::RunMemory* memory) {
    ++memory->restarts;
    ++memory->class_restarts[class_of_end().name];
  });
  voice_.say(fmt::format("{}; restart {} of {}", decision_.reason, memory_.restarts, plan().restarts));
  if (attempt_.agent_silent()) forget_old_step();
  start_attempt(fmt::format("restart {} of {}: {}", memory_.restarts, plan().restarts, decision_.reason));
}

// dlrun's last message about a job that failed: the cause, its class where that says more, the path of its log, and the
// log's last lines, unless they have just appeared in dlrun's output unmixed with those of other learners.
std::string Supervisor::failure_text(const std::string& reason, const std::optional<Failure>& cause,
                                     const FailureClass& its) const {
  std::string text = voice_.name() + ": " + reason;
  if (!cause || cause->kind == Failure::Kind::kNotStarted) return text + "\n";
  const std::string name = format_class(its);
  if (its.code != kPlainCode && reason.find(name) == std::string::npos) text += "; class " + name;
  if (cause->kind == Failure::Kind::kNoAgent || cause->kind == Failure::Kind::kLauncher) return text + "\n";
  text += fmt::format("; its output: {}\n", dir_.learner_log(attempts_, cause->rank));
  if (plan().world_size() == 1 && !options_.quiet) return text;
  const auto& lines = cause->last_lines;
  for (size_t i = lines.size() - std::min(lines.size(), kShownLines); i < lines.size(); ++i)
    text += fmt::format("{}:   | {}\n", voice_.name(), lines[i]);
  return text;
}

// The last words are written after the last output of the learners, which srun and the agents are still passing on.
void Supervisor::settle(int exit_status, std::string last_words) {
  exit_status_ = exit_status;
  // Agents exit when their connection is closed, and then srun or mpirun exits, too.
  server_->close_all();
  repeat(&loop_, 5, [this, since = awake_ms(), last_words = std::move(last_words)]() mutable {
    agents_->reap(awake_ms());
    int64_t waited = awake_ms() - since;
    if (agents_->any_running() && waited < 15000) {
      if (waited > 5000) agents_->kill_all(waited > 10000 ? SIGKILL : SIGTERM);
      return false;
    }
    std::fputs(std::exchange(last_words, {}).c_str(), stderr);
    log_times_->flush();
    bool settled =
        journal_->comment_settled() && slurm_->idle() && lease_->idle() && scaling_->idle() && log_times_->idle();
    // A cancelled job's comment cannot be set any more, so it is not waited for.
    bool cancelled = state_.stop && state_.stop->cause == StopCause::kCancelled;
    if (!settled && waited < (cancelled ? kSettleCancelledMs : kSettleLimitMs)) return false;
    handle(Settled{});
    return true;
  });
}

void Supervisor::perform(const Finish& /*finish*/) {
  lease_->release();
  if (control_written_) ::unlink(dir_.control().c_str());
  ::unlink(dir_.request().c_str());
  // Without Slurm, processes that a killed agent has left are now children of dlrun.
  if (!plan().under_slurm) kill_descendants(std::chrono::seconds(3));
  uv_stop(&loop_);
}

}  // namespace dl::supervise
