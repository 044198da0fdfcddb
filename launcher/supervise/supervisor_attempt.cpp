// SPDX-License-Identifier: Apache-2.0
// An attempt: agents start, say hello, start their learners, report, and end.
#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/count.h"
#include "common/base/this_process.h"
#include "common/contract/exit_codes.h"
#include "launcher/record/sources_file.h"
#include "launcher/supervise/learner_end.h"
#include "launcher/supervise/scaling_watch.h"
#include "launcher/supervise/start_message.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;
using record::JobState;

void Supervisor::start_attempt(const std::string& why, const std::string& code) {
  ++attempts_;
  const bool woken = agents_->begin(static_cast<size_t>(plan().world_size()), attempt_.agents_may_stay(), awake_ms());
  nodes_.begin_attempt();
  journal_->change_memory([](record::RunMemory* memory) {
    memory->lost.clear();
    memory->decided.clear();
  });
  attempt_ = Attempt(plan(), awake_ms(), unix_ms());
  begin_watches();
  std::string run_id = fmt::format("{}-{}-{}", plan().job_id, attempts_, secret_.substr(0, 6));
  if (run_id.size() > 64) run_id = run_id.substr(run_id.size() - 64);
  attempt_.is_called(attempts_, journal_->memory().restarts + journal_->memory().moved, std::move(run_id));
  if (options_.guard != nullptr) options_.guard->run_id(attempt_.facts().run_id);
  journal_->begin_attempt(attempts_, journal_->memory().restarts);
  journal_->job(JobState::kDeploy, why, {}, code);
  // Otherwise events.jsonl still says what an earlier run of the job was to remember.
  if (options_.guard != nullptr && journal_->memory_written()) options_.guard->began();
  Status ready = dir_.prepare(attempts_);
  log_times_->begin_attempt(dir_.attempt_logs(attempts_), unix_ms());
  // The newest one that is over stays as it is: its logs are what people look at now.
  if (attempts_ > 2) old_logs_.begin(dir_.logs(), attempts_ - 2);
  if (ready && options_.plan_json) {
    // plan.json is readable by everybody, so it leaves out the run id, which contains a part of the secret.
    plan::RunFacts known;
    known.attempt = attempt_.facts().attempt;
    known.restarts = attempt_.facts().restarts;
    ready = replace_file(dir_.plan(), options_.plan_json(plan(), known));
  }
  if (ready) {
    if (journal_->memory().restarts + journal_->memory().moved == 0)
      voice_.say(fmt::format(
          "{}{} of {} on {}; logs in {}/logs/latest",
          count_text(plan().pool ? plan().learner_count() : plan().world_size(), "learner"),
          plan().pool ? fmt::format(" and {} to {} servers", plan().pool->min, plan().pool->max) : "", plan().framework,
          plan().nodes.size() == 1 ? plan().nodes[0].name : fmt::format("{} nodes", plan().nodes.size()), dir_.root()));
    if (growth_->taken()) {
      for (const auto& [id, hello] : growth_->adopt()) on_hello(id, hello);
    } else if (!woken) {
      ready = agents_->start(endpoint_, secret_);
    }
  }
  if (ready) return;
  growth_->not_begun();
  agents_not_started(ready.error().text);
}

// Begins what watches over the attempt, and its PMIx servers.
void Supervisor::begin_watches() {
  hang_.begin_attempt(agents_.get(), dir_.attempt_logs(attempts_));
  watch_.begin_attempt(journal_.get(), attempts_, attempt_.learners().size(), plan().gpus_per_learner);
  watch_.look_at_own_output(options_.quiet);
  use_->begin_attempt(plan(), dir_.use_series(attempts_), awake_ms());
  const auto random = make_secret();
  data_.begin_attempt(plan());
  pmix_->open(plan(), fmt::format("dl.{}.{}.{}", plan().job_id.substr(0, 64), attempts_, random ? *random : secret_));
}

void Supervisor::agents_not_started(const std::string& why) {
  Failure failure;
  failure.kind = Failure::Kind::kNotStarted;
  failure.text = why;
  failure.exit = kExitCannotStart;
  attempt_.fail(std::move(failure));
  attempt_.end_unheard();
  agents_->kill_all(SIGKILL);
  check_attempt_over();
}

// Starts new agents for all ranks (AgentFleet::News::start_again).
void Supervisor::start_cold() {
  agents_->begin_again(awake_ms());
  nodes_.begin_attempt();
  attempt_.begin_again(plan(), awake_ms(), unix_ms());
  begin_watches();
  agents_->kill_all(SIGTERM);
  if (Status started = agents_->start(endpoint_, secret_); !started) agents_not_started(started.error().text);
}

void Supervisor::on_hello(ConnectionId id, const Hello& hello) {
  if (hello.role == "ctl" || growth_->keeps(id, hello)) return;
  if (hello.start != agents_->start_number()) return server_->close(id);
  if (hello.role == "pmix") {
    const bool expected = state_.may_greet() && hello.version == kProtocolVersion;
    if (!expected || !pmix_->greet(id, hello.rank, hello.sessions)) server_->close(id);
    return;
  }
  const bool may_greet = state_.may_greet() || (state_.running() && attempt_.is_place(hello.rank));
  if (!may_greet || !attempt_.awaits(hello) || hello.version != kProtocolVersion) {
    if (hello.role == "agent" && hello.version != kProtocolVersion)
      std::fprintf(stderr,
                   "dlrun: the agent on %s is of another version of slurm-dl; install one version on all nodes\n",
                   hello.host.c_str());
    return server_->close(id);
  }
  agents_->greet(id, hello.rank, hello.sessions, awake_ms());
  attempt_.said_hello(hello.rank, hello);
  if (!hello.error.empty())
    return agents_not_started(fmt::format("the PMIx server (dl-pmix) on {}: {}", hello.host, hello.error));
  if (state_.ending()) return server_->send(id, Kill{0});
  look_whether_ready();
}

void Supervisor::look_whether_ready() {
  for (const AgentLoss& loss : agents_->losses_kept(state_.ending()))
    if (!attempt_.learner(loss.rank).ended) follow(loss);
  if (state_.phase != Phase::kStarting || !attempt_.all_said_hello() || !pmix_->ready() || nodes_.fenced(awake_ms()))
    return;
  if (data_.must_ask()) fetch_data();
  if (data_.ready()) handle(AgentsReady{plan().deciding()});
}

// All agents have come: one of each node fetches, and the learners start once all is there. Nothing of the learners has
// begun, so a stop in the meantime ends as one before all agents have come.
void Supervisor::fetch_data() {
  Status ready = make_directories(dir_.data(), 0700);
  if (ready) ready = record::write_sources(dir_.sources(), plan().data->sources);
  if (!ready) return agents_not_started(ready.error().text);
  const auto asked = data_.ask(plan(), dir_);
  agents_->all_came();
  journal_->job(JobState::kDownloading,
                fmt::format("data is fetched to {}", count_text(static_cast<int64_t>(asked.size()), "node")));
  for (const auto& [rank, fetch] : asked) agents_->tell(rank, fetch);
}

void Supervisor::on_fetched(int rank, const Fetched& fetched) {
  const bool before = data_.ready();
  auto failure = data_.heard(rank, fetched);
  if (failure && state_.phase == Phase::kStarting) {
    learner_failed(rank, *std::move(failure));
    handle(EndLearners{0});
    return check_attempt_over();
  }
  if (before || !data_.ready() || state_.phase != Phase::kStarting) return;
  journal_->note("the data is there");
  look_whether_ready();
}

void Supervisor::perform(const StartLearners& /*start*/) {
  plan::RunFacts facts = attempt_.facts();
  // Without the store of torch.distributed, learner 0 hosts one.
  const Status store = plan().launcher_store ? rendezvous_->open_store(endpoint_, &facts) : Status{};
  if (!store) {
    voice_.say(fmt::format("learner 0 hosts the store: {}", store.error().text));
    nodes_.drop_launcher_store();
    journal_->change_memory([this](record::RunMemory* memory) { memory->store_host = nodes_.store_host(); });
  }
  // Without Horovod's store no learner starts: each would take itself for the only one.
  const Status http_store = plan().http_store ? rendezvous_->open_http_store(endpoint_, &facts) : Status{};
  if (!http_store) return agents_not_started(http_store.error().text);
  if (plan().pool)
    if (const Status pool = pool_->open(endpoint_, &facts); !pool) return agents_not_started(pool.error().text);
  attempt_.meet(std::move(facts), plan().peers);
  for (int rank = 0; rank < attempt_.first_place(); ++rank) start_learner(rank);
  pool_->start_servers();
}

void Supervisor::start_learner(int rank) {
  StartSettings settings;
  settings.quiet = options_.quiet;
  settings.debug = options_.debug;
  settings.run = options_.beside ? options_.run : 0;
  settings.hang_ms = options_.hang_ms;
  settings.log_limit = site_.log_limit;
  settings.gpu_look_ms = watch_.gpu_look_ms() > 0 ? watch_.gpu_look_ms() : UseKeeper::kGpuLookMs;
  settings.use_ms = UseKeeper::kEachMs;
  settings.passed_signal = options_.passed_signal;
  settings.lease = lease_->token();
  Start start = start_message(plan(), attempt_, dir_, rank, settings);
  pmix_->add_environment(rank, &start);
  // A program that names files by its job finds the same number on all nodes.
  if (!nodes_.companion_of(rank).empty()) start.forced["SLURM_JOB_ID"] = environment_value("SLURM_JOB_ID");
  agents_->tell(rank, start);
}

void Supervisor::on_message(ConnectionId id, const ControlMessage& message) {
  if (const auto known = agents_->rank_of(id)) {
    const int rank = *known;
    agents_->heard(rank, awake_ms());
    if (const auto* lost = std::get_if<LogLost>(&message)) return watch_.log_lost(rank, *lost);
    if (const auto* notice = std::get_if<Notice>(&message); notice && growth_->noticed(rank, notice->signal)) return;
    if (const auto* size = std::get_if<LogSize>(&message)) return log_times_->grew(rank, size->bytes, unix_ms());
    // The learner has ended, and its agent waits for the next attempt: further messages are ignored.
    if (attempt_.learner(rank).ended) return;
    if (const auto* fetched = std::get_if<Fetched>(&message)) return on_fetched(rank, *fetched);
    if (const auto* started = std::get_if<Started>(&message))
      on_started(rank, *started);
    else if (const auto* progress = std::get_if<Progress>(&message))
      on_progress(rank, *progress);
    else if (const auto* report = std::get_if<StepReport>(&message)) {
      attempt_.stands_at(rank, *report);
      handle(Reported{rank, report->request, {report->attached, report->state, report->step}});
    } else if (const auto* exited = std::get_if<Exited>(&message))
      on_exited(rank, *exited);
    else if (const auto* notice = std::get_if<Notice>(&message))
      on_notice(notice->signal);
    else if (const auto* connects = std::get_if<Connects>(&message))
      rendezvous_->answered(connects->query, connects->uid);
    else if (const auto* gpus = std::get_if<GpuUse>(&message)) {
      if (gpus->percent >= 0) watch_.gpus_used(rank, gpus->percent, awake_ms());
      use_->gpus_used(rank, *gpus, awake_ms());
    } else if (const auto* use = std::get_if<Use>(&message))
      use_->used(rank, *use, awake_ms());
    else if (const auto* vote = std::get_if<Voted>(&message))
      watch_.voted(rank, {vote->change, vote->reason}, awake_ms());
    else if (const auto* stalled = std::get_if<Stalled>(&message))
      voice_.say_if(hang_.stalled(rank, *stalled, awake_ms()));
    else if (const auto* still = std::get_if<StandingStill>(&message); still && hang_.answered(rank, *still))
      settle_hang();
    return;
  }
  if (pmix_->knows(id)) {
    if (const auto* pmix = std::get_if<Pmix>(&message)) follow(pmix_->heard(id, pmix->body, now_for_pmix()));
    return;
  }
  answer_ctl(id, message);
}

void Supervisor::on_started(int rank, const Started& started) {
  attempt_.started(rank, started.pid);
  journal_->learner(rank, JobState::kProcessing, attempt_.learner(rank).host);
  if (!attempt_.all_started()) return;
  handle(AllStarted{});
  if (!attempt_.all_run(awake_ms())) return;
  use_->all_run(awake_ms());
  journal_->job(JobState::kProcessing, plan().world_size() == 1 ? "the learner runs" : "all learners run");
}

void Supervisor::on_progress(int rank, const Progress& progress) {
  use_->progressed(rank, progress, awake_ms());
  // A checkpoint that one learner reports as committed is committed for all.
  if (const auto saved = attempt_.progressed(rank, progress, awake_ms())) journal_->saved(*saved);
  if (progress.done_request > 0 && state_.agreement.open()) handle(Acted{rank, progress.done_request});
}

void Supervisor::on_exited(int rank, const Exited& exited) {
  pool_->look();  // a learner that fails since the pool has lost its state is not the first cause
  if (attempt_.learner(rank).ended) return;
  use_->ended(rank, awake_ms());
  journal_->learner_used(rank, use_->of_learner(rank));
  watch_.log_lost(rank, exited.log_lost);
  if (pool_->takes_end(rank, exited)) return;
  attempt_.end(rank);
  // An agent that holds the data of its node stays until no learner uses them any more.
  if (!attempt_.agent_stays(plan(), journal_->memory().restarts) && !data_.holds(rank)) agents_->let_go(rank);
  const Learner& learner = attempt_.learner(rank);
  using Kind = LearnerEnd::Kind;
  LearnerEnd end =
      judge_exit(exited, {learner.hung, state_.stop.has_value(), attempt_.served(rank), pmix_->has_aborted(rank)});
  if (exited.stragglers > 0 && end.kind != Kind::kBlamed && !state_.ending())
    voice_.say(fmt::format("learner {} left processes behind ({}), which were killed", rank, exited.stragglers));
  if (end.kind == Kind::kBlamed) {
    handle(Gone{rank});
  } else if (end.kind == Kind::kFailed) {
    voice_.say_if(pmix_->explain(rank, &end.failure));
    learner_failed(rank, std::move(end.failure));
  } else {
    attempt_.end_well(rank, end.exit, end.kind == Kind::kStopped, awake_ms());
    if (attempt_.only_servers_left()) pool_->close();
    journal_->learner(rank, learner.state, learner.host, "", "", end.exit);
    pmix_->tell_of_end(rank, false, end.exit);
    handle(Gone{rank, attempt_.deaf_are_left()});
  }
  check_attempt_over();
}

// Ends the attempt as after any failure: that of the learner for which the others wait.
void Supervisor::settle_hang() {
  const auto failure = hang_.settle();
  if (!failure) return;
  attempt_.blame_for_hang(failure->rank);
  learner_failed(failure->rank, *failure);
}

void Supervisor::learner_failed(int rank, Failure failure) {
  const Failure& its = attempt_.fail(rank, std::move(failure), awake_ms());
  const Learner& learner = attempt_.learner(rank);
  if (its.asked) {
    journal_->learner(rank, learner.state, learner.host, "ended by dlrun", "", learner.exit);
  } else {
    const FailureClass of = classify(its, site_.failures);
    journal_->learner_failed(rank, learner.host, describe(its), of, failure_signature(its, of), learner.exit);
  }
  const int exit = learner.exit;
  handle(Gone{rank});
  const bool told = pmix_->tell_of_end(rank, true, exit);
  if (!told) return handle(EndLearners{});
  if (!state_.ending()) pmix_->end_after_notice(awake_ms());
}

// Ends the attempt, by this failure, for all learners that have not ended; their agents end when their connection is
// closed.
void Supervisor::give_up_learners(const Failure& why) {
  const bool to_end = state_.ending();  // the first failure below ends all the other learners
  for (int rank = 0; rank < static_cast<int>(attempt_.learners().size()); ++rank) {
    if (attempt_.learner(rank).ended) continue;
    agents_->let_go(rank);
    learner_failed(rank, attempt_.give_up(rank, why, to_end));
  }
  agents_->kill_all(SIGKILL);
  check_attempt_over();
}

void Supervisor::look_at_scaling(bool last) {
  if (plan().servers > 0) return;  // learners beside parameter servers scale by another formula
  scaling_->look(dir_, scaling_record_of(plan()), attempt_.learners(), awake_ms(), attempt_.started_ms(), last);
  if (!scaling_->hint().empty()) journal_->scale(scaling_->hint());
}

void Supervisor::look_at_votes() {
  if (!plan().asked.elastic()) return;
  const int64_t now = awake_ms();
  const auto vote = watch_.votes().of_job(attempt_.learners(), attempt_.deciding(), plan().asked, now);
  journal_->vote(wanted_.look(vote, state_.running() && state_.all_started, now));
}

void Supervisor::look_at_pace() {
  PaceHint pace = attempt_.pace(unix_ms() / 1000);
  pace.blocked_s = use_->saving_s(awake_ms());
  journal_->pace(pace);
}

void Supervisor::check_attempt_over() {
  if (!state_.alive() || !attempt_.is_over()) return;
  look_at_scaling(/*last=*/true);
  look_at_pace();
  look_at_votes();
  use_->end_attempt(awake_ms());
  rendezvous_->close();
  pool_->close();
  pmix_->close();
  handle(judge_->over());
}

}  // namespace dl::supervise
