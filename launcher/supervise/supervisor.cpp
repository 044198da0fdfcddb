// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/supervisor.h"
#include "common/base/this_process.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "common/contract/exit_codes.h"
#include "common/contract/vote_hint.h"

namespace dl::supervise {

using namespace protocol;

namespace {

using record::JobState;

constexpr uint64_t kTickMs = 50;
constexpr uint64_t kQuietTickMs = 250;  // nodes that compute are woken as seldom as can be

}  // namespace

Supervisor::Supervisor(plan::LaunchPlan first_plan, SiteConfig site, RunOptions options)
    : nodes_(std::move(first_plan), std::move(options.without), std::move(options.with)),
      site_(std::move(site)),
      options_(std::move(options)),
      dir_(plan().job_dir),
      voice_(options_.beside ? options_.run : 0, options_.quiet),
      stops_(plan(), site_.signal_lead.count() * 1000),
      hang_(&attempt_, &state_, options_.hang_ms),
      watch_(&voice_, site_.idle) {
  state_.rules.under_slurm = plan().under_slurm;
  state_.rules.grace_ms = std::chrono::duration_cast<std::chrono::milliseconds>(plan().grace).count();
  state_.rules.signal_lead_s = site_.signal_lead.count();
  state_.rules.restart_count = plan().slurm_restart_count;
  // If the batch script has become dlrun (exec), the script's process is dlrun's parent, the guard.
  state_.rules.saves_at_own_signal =
      options_.own_signal && options_.own_signal->to_script && options_.script == ::getppid();
}

Supervisor::~Supervisor() {
  if (!loop_open_) return;
  if (rendezvous_) rendezvous_->close_handle();
  if (server_) server_->close_all();
  uv_timer_stop(&timer_);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), nullptr);
  for (auto& handle : signals_) uv_close(reinterpret_cast<uv_handle_t*>(handle.get()), nullptr);
  uv_run(&loop_, UV_RUN_DEFAULT);
  uv_loop_close(&loop_);
}

Status Supervisor::set_up() {
  // Orphans of a killed agent become children of dlrun, so that supervisor_end.cpp can find and end them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  uv_loop_init(&loop_);
  loop_open_ = true;
  uv_timer_init(&loop_, &timer_);
  timer_.data = this;
  rendezvous_ = std::make_unique<Rendezvous>(&loop_, [this](int64_t query, const rendezvous::Connection& who) {
    return agents_->tell_each_host(encode(WhoConnects{query, who.client, who.client_port, who.server_port}),
                                   attempt_.learners());
  });
  const std::string slurm_id = plan().under_slurm ? plan().job_id : std::string();
  slurm_ = std::make_unique<SlurmJob>(&loop_, slurm_id, [this](const slurm_cli::JobInfo& job) {
    // A running job with a PreemptTime has been preempted with a grace time.
    if (job.preempt_time && job.state == "RUNNING") journal_->preempted();
  });
  other_runs_ = std::make_unique<OtherRuns>(&loop_, &state_, slurm_.get(), std::move(options_.siblings));
  sweeper_ = std::make_unique<Sweeper>(slurm_.get(), &nodes_, options_.agent_path);
  companions_ = std::make_unique<Companions>(&loop_, slurm_id, companion_name(plan().job_id, options_.run),
                                             [this](const std::string& job, const CompanionState& state) {
                                               growth_->heard(job, state);
                                               set_pace();
                                             });
  lease_ = std::make_unique<LeaseKeeper>(&loop_, [this] {
    handle(StopAsked{StopCause::kLeaseLost, {}, 0, "another job took the checkpoint directory", 0});
  });
  scaling_ = std::make_unique<ScalingKeeper>(&loop_);
  checker_ = std::make_unique<BlockingCalls>(&loop_);
  log_times_ = std::make_unique<LogTimes>(&loop_);
  use_ = std::make_unique<UseKeeper>(&loop_);
  journal_ = std::make_unique<Journal>(dir_, plan().under_slurm ? slurm_.get() : nullptr);
  results_ = std::make_unique<ResultKeeper>(
      &loop_, ResultKeeper::Owners{&nodes_, &state_, &stops_, slurm_.get(), journal_.get(), &voice_}, dir_,
      options_.run);
  if (plan().under_slurm)
    journal_->this_run(options_.identity, plan().slurm_restart_count, options_.run, options_.first_dir);
  judge_ = std::make_unique<EndJudge>(EndJudge::Sources{&attempt_, &state_, &nodes_, slurm_.get(), journal_.get(),
                                                        &site_, static_cast<bool>(options_.check)});
  time_limit_ = std::make_unique<TimeLimitWatch>(&stops_, slurm_.get(), &attempt_, options_.own_signal, options_.script,
                                                 [this](const StopAsked& stop) { handle(stop); });
  stops_.run_begins(unix_ms(), !options_.predecessor.death.empty());
  DL_TRY(journal_->open());
  attempts_ = record::summarise(journal_->events()).attempts;
  if (plan().checkpoint) {
    std::string owner = plan().under_slurm ? "job " + plan().job_id : "dlrun " + plan().job_id;
    Status leased = lease_->acquire(plan().checkpoint->path, owner, slurm_id, monotonic_ms());
    if (!leased) {
      journal_->begin_attempt(attempts_ + 1, 0);
      journal_->job(JobState::kDeploy, "");
      Error error = std::move(leased).error().with_context("checkpoint directory");
      if (error.code == Errc::kDenied) error.text += "; allowed: --checkpoint=PATH in a folder that you can write to";
      journal_->job(JobState::kFailed, error.text, {}, "S303", kExitNoDirectory);
      return error;
    }
  }
  return open_control();
}

Status Supervisor::open_control() {
  DL_TRY_ASSIGN(secret_, make_secret());
  ControlServer::Handlers handlers;
  handlers.on_hello = [this](ConnectionId id, const Hello& hello) { on_hello(id, hello); };
  handlers.on_message = [this](ConnectionId id, const ControlMessage& message) { on_message(id, message); };
  handlers.on_closed = handlers.on_broken = [this](ConnectionId id, const std::string& why) { on_broken(id, why); };
  handlers.on_resumed = [this](ConnectionId id) { on_resumed(id); };
  handlers.on_refused = [this](ConnectionId id) {
    if (const auto rank = agents_->rank_of(id)) follow(agents_->judge(*rank, state_.ending(), awake_ms()));
  };
  server_ = std::make_unique<ControlServer>(&loop_, secret_, std::move(handlers));
  agents_ = std::make_unique<AgentFleet>(server_.get(), plan(), site_.agent_timeout);
  orders_ = std::make_unique<LearnerOrders>(agents_.get(), &attempt_);
  pmix_ = std::make_unique<PmixServers>(server_.get());
  silence_ = std::make_unique<SilenceWatch>(agents_.get(), slurm_.get(), &attempt_, &state_, site_.agent_timeout,
                                            [this](const Failure& failure) { agent_silent(failure); });
  make_keepers();
  server_->expect(static_cast<size_t>(plan().world_size()) + plan().nodes.size());  // agents, and dl-pmix on each node
  DL_TRY(server_->listen());
  // The address of the interface that leads to the other nodes, or the loopback if there is no other node.
  std::string host = "127.0.0.1", own = node_name();
  if (plan().under_slurm) {
    auto other = std::find_if(plan().nodes.begin(), plan().nodes.end(), [&](const auto& n) { return n.name != own; });
    if (other != plan().nodes.end()) {
      DL_TRY_ASSIGN(host, address_towards(other->name));
    }
  }
  endpoint_ = format_endpoint(host, server_->port());
  record::ControlInfo info{host, server_->port(), secret_, own, ::getpid()};
  if (host == "127.0.0.1" && plan().under_slurm) {
    // dlctl runs on another node, and finds this one by its name.
    info.host = own;
  }
  if (options_.guard != nullptr) options_.guard->control_file(dir_.control());
  DL_TRY(record::write_control(dir_.control(), info));
  control_written_ = true;
  return {};
}

// What acts through the agents, and tells the rest of dlrun what follows.
void Supervisor::make_keepers() {
  const auto fail = [this](int rank, Failure failure) { learner_failed(rank, std::move(failure)); };
  const auto look_whether_over = [this] { check_attempt_over(); };
  pool_ = std::make_unique<PoolKeeper>(
      std::make_unique<ServerPool>(&loop_),
      PoolKeeper::Owners{&attempt_, &state_, &nodes_, agents_.get(), &data_, journal_.get(), &voice_},
      PoolKeeper::Calls{[this](int rank) { start_learner(rank); }, fail, look_whether_over,
                        [this](const std::vector<std::string>& names) { release_lost(names); }});
  Growth::Calls calls;
  calls.endpoint = [this](const std::string& node) -> Result<std::string> {
    if (endpoint_.rfind("127.", 0) != 0) return endpoint_;
    DL_TRY_ASSIGN(const std::string host, address_towards(node));
    return format_endpoint(host, server_->port());
  };
  calls.expect = [this](size_t own) { server_->expect(own); };
  calls.stop = [this](const StopAsked& stop) { handle(stop); };
  calls.fail = fail;
  calls.look_whether_over = look_whether_over;
  calls.settle = options_.settle;
  growth_ = std::make_unique<Growth>(Growth::Owners{server_.get(), agents_.get(), &nodes_, companions_.get(), &attempt_,
                                                    &state_, journal_.get(), &voice_, &site_},
                                     std::move(calls), secret_, options_.run);
  QueueReturn::Calls of_return;
  of_return.happens = [this](const RunEvent& event) { handle(event); };
  of_return.leave = [this] {
    growth_->run_ends();
    exit_status_ = judge_->decision().exit_status;
  };
  of_return.close = [this] {
    look_for_request_file();  // for a pause that was asked for at the last moment
    server_->close_all();
    lease_->release();
    if (control_written_) ::unlink(dir_.control().c_str());
  };
  of_return.fail = [this] { settle(exit_status_, {}); };
  queue_return_ = std::make_unique<QueueReturn>(
      &loop_,
      QueueReturn::Owners{judge_.get(), &attempt_, &state_, &nodes_, agents_.get(), slurm_.get(), other_runs_.get(),
                          results_.get(), use_.get(), journal_.get(), &voice_, options_.guard},
      std::move(of_return));
  Successor::Calls of_successor;
  of_successor.happens = [this](const RunEvent& event) { handle(event); };
  of_successor.kill_wait = [this](int64_t seconds) { state_.rules.kill_wait_s = seconds; };
  of_successor.settle = options_.settle;
  of_successor.start = [this](const std::string& why, const std::string& code) { start_attempt(why, code); };
  of_successor.release = [this](const std::vector<std::string>& names) { release_lost(names); };
  successor_ = std::make_unique<Successor>(Successor::Owners{judge_.get(), &attempt_, &state_, &nodes_, slurm_.get(),
                                                             sweeper_.get(), journal_.get(), &voice_},
                                           std::move(of_successor), options_.predecessor);
}

void Supervisor::watch_signals() {
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) {
    auto handle = std::make_unique<uv_signal_t>();
    uv_signal_init(&loop_, handle.get());
    handle->data = this;
    uv_signal_start(
        handle.get(),
        [](uv_signal_t* h, int signal) {
          auto* self = static_cast<Supervisor*>(h->data);
          if (signal == SIGCHLD) {
            self->agents_->reap(awake_ms());
          } else {
            self->on_signal(signal);
          }
        },
        number);
    signals_.push_back(std::move(handle));
  }
  if (options_.guard != nullptr) options_.guard->handles_signals();
  tick_each(kTickMs);
}

void Supervisor::tick_each(uint64_t ms) {
  uv_timer_start(
      &timer_, [](uv_timer_t* t) { static_cast<Supervisor*>(t->data)->tick(); }, ms, ms);
}

// While learners train and nothing else is under way, agents and signals say what happens; the rest is looked at each
// second or after seconds.
bool Supervisor::quiet() const {
  return state_.phase == Phase::kRunning && !state_.stop && !state_.agreement.open() && !growth_->under_way() &&
         !pool_->is_open();
}

void Supervisor::set_pace() {
  const uint64_t ms = quiet() ? kQuietTickMs : kTickMs;
  if (uv_is_active(reinterpret_cast<uv_handle_t*>(&timer_)) != 0 && uv_timer_get_repeat(&timer_) != ms) tick_each(ms);
}

int Supervisor::run() {
  if (Status ready = set_up(); !ready) {
    const bool full = ready.error().code == Errc::kNoSpace;
    std::fprintf(stderr, "dlrun: %s%s\n", ready.error().text.c_str(),
                 full ? "; allowed: a place with room (--job-dir=PATH, --checkpoint=PATH)" : "");
    // The job's comment shows the reason even after the job is gone.
    if (plan().under_slurm && journal_) {
      slurm_->ask([this](const SlurmJob::Answer& job) {
        if (job) journal_->set_user_comment(job->comment);
      });
      while (!slurm_->idle()) uv_run(&loop_, UV_RUN_ONCE);
    }
    lease_->release();
    return kExitNoDirectory;
  }
  watch_signals();
  const auto learn = [this](const SlurmJob::Answer& job) {
    stops_.job_is_known(job);
    if (const auto wanted = vote_hint_in(job ? job->comment : std::string())) wanted_.found(*wanted, awake_ms());
    journal_->set_user_comment(job ? job->comment : std::string());
  };
  if (options_.job) {
    slurm_->learn(*std::move(options_.job));
    learn(slurm_->info());
  } else if (plan().under_slurm) {
    slurm_->ask(learn);
  }
  if (!successor_->has_predecessor()) {
    handle(Begin{});
    // Of an earlier dlrun of this batch script, or an earlier start of the job.
    if (plan().under_slurm && plan().asked.elastic()) companions_->give_back_strays(0);
    // Before the answer is needed, when slurmctld may be slow.
    slurm_->ask_kill_wait([this](int64_t seconds) { state_.rules.kill_wait_s = seconds; });
  } else {
    next_start_ = NextStart::kTakeOver;
    if (plan().under_slurm && plan().asked.elastic()) companions_->give_back_strays(Companions::kStrayMs);
    successor_->take_over();
  }
  uv_run(&loop_, UV_RUN_DEFAULT);
  return exit_status_;
}

void Supervisor::tick() {
  int64_t now = awake_ms();
  agents_->reap(now);
  rendezvous_->tick(now);
  agents_->tick(now, attempt_.learners());
  growth_->look(now);
  for (const int rank : agents_->look_at_broken(now)) follow(agents_->judge(rank, state_.ending(), now));
  if (state_.alive()) {
    look_whether_ready();
    pool_->look();
    if (follow(agents_->look(state_, now))) return;
    if (hang_.is_overdue(now)) settle_hang();
    if (state_.running() && attempt_.end_serving(now)) handle(EndLearners{});
    follow(pmix_->tick(now_for_pmix(), attempt_.all_said_hello()));
  }
  handle(Tick{});
  if (const auto asked = other_runs_->look()) handle(*asked);
  if (now - last_second_ms_ >= 1000) {
    last_second_ms_ = now;
    journal_->tick(now);
    log_times_->flush();
    silence_->look(now);
    if (!state_.finished()) {
      look_for_request_file();
      look_at_votes();
    }
    if (data_.under_way() && state_.phase == Phase::kStarting && !state_.stop) time_limit_->look();
    if (state_.learners_under_way()) {
      if (!state_.stop) time_limit_->look();
      const bool may_save = state_.phase == Phase::kRunning && !state_.agreement.open();
      if (may_save && stops_.save_due(&attempt_, journal_->events(), now, unix_ms())) handle(SaveDue{});
      watch_.look(attempt_.learners(), now, unix_ms());
      use_->look(now, unix_ms());
      look_at_scaling();
      look_at_pace();
      const auto running_ms = static_cast<int64_t>(1000 * attempt_.running_s(now));
      if (plan().world_size() > 1) voice_.say_if(rendezvous_->look(running_ms));
    }
    lease_->tick(monotonic_ms());
  }
}

void Supervisor::answer_ctl(ConnectionId id, const ControlMessage& message) {
  if (const auto* pause = std::get_if<Pause>(&message)) {
    handle(StopAsked{StopCause::kPause, {}, 0, pause->reason.empty() ? "dlctl pause" : pause->reason, id});
  }
  if (const auto* grow = std::get_if<Grow>(&message)) growth_->asked(id, grow->nodes);
  if (!std::holds_alternative<StatusQuery>(message)) return;
  JobStatus status;
  status.job = plan().job_id;
  status.state = record::state_name(journal_->state());
  status.reason = journal_->reason();
  status.attempt = attempts_;
  status.restarts = journal_->memory().restarts;
  status.max_restarts = plan().restarts;
  status.started_ms = attempt_.started_unix_ms();
  if (state_.stop) status.stopping = state_.stop->who;
  const int64_t now = awake_ms();
  for (size_t i = 0; i < attempt_.learners().size(); ++i) {
    const Learner& l = attempt_.learners()[i];
    status.learners.push_back({static_cast<int>(i), l.host, l.pid, record::state_name(l.state), l.step, l.saved_step,
                               l.save_ms, watch_.note(static_cast<int>(i), now),
                               use_->of_learner(static_cast<int>(i))});
  }
  if (const auto vote = watch_.votes().of_job(attempt_.learners(), attempt_.deciding(), plan().asked, now))
    status.vote = {vote->voted, vote->learners, vote->change, vote->wanted, vote->reason};
  if (const auto use = use_->so_far(now)) status.use = use->text;
  status.data = results_->under_way() ? results_->text() : data_.text();
  status.pool = pool_->status();
  server_->send(id, status);
}

}  // namespace dl::supervise
