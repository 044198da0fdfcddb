// SPDX-License-Identifier: Apache-2.0
// An attempt: agents are started, say hello, start their learners, report, and end.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "launcher/common/atomic_file.h"
#include "launcher/common/env_names.h"
#include "launcher/supervise/exit_codes.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

using record::JobState;

constexpr int kFailureGraceMs = 500;     // for the others to write a last line when one has failed
constexpr int64_t kServeOnMs = 1000;     // for those that serve to end by themselves, when nobody is left to be served
constexpr int64_t kKillLimitMs = 10000;  // after a kill an agent that says nothing counts as lost

// ::ffff:10.0.0.1 is how a dual-stack socket shows an IPv4 address.
std::string plain_address(const std::string& address) {
  return address.rfind("::ffff:", 0) == 0 ? address.substr(7) : address;
}

std::string first_port(const std::string& address, const std::vector<int>& ports) {
  return format_endpoint(plain_address(address), ports.empty() ? 0 : ports.front());
}

}  // namespace

void Supervisor::start_attempt(const std::string& why, const std::string& code) {
  ++attempt_;
  phase_ = Phase::kStarting;
  woken_ = wake_agents();
  agents_have_pmi_ = false;
  learners_.assign(static_cast<size_t>(plan_.world_size()), Learner{});
  rank_of_.clear();
  broken_.clear();
  hello_below_ = started_below_ = ended_below_ = 0;
  slow_ = SlowLearners(learners_.size());
  idle_ = IdleGpus(learners_.size(), site_.idle);
  name_hosts();
  open_pmix();
  failures_.clear();
  agreement_ = StopAgreement{};
  stop_.reset();
  hang_open_ = false;
  stop_waits_ = agent_lost_ = agent_silent_ = killing_ = false;
  lost_nodes_.clear();
  launcher_status_.reset();
  step_ms_ = serving_until_ms_ = 0;
  serving_over_ = false;
  attempt_started_ms_ = monotonic_ms();
  facts_ = plan::RunFacts{};
  facts_.attempt = attempt_;
  facts_.restarts = restarts_done_ + moved_;
  facts_.run_id = fmt::format("{}-{}-{}", plan_.job_id, attempt_, secret_.substr(0, 6));
  if (facts_.run_id.size() > 64) facts_.run_id = facts_.run_id.substr(facts_.run_id.size() - 64);
  if (options_.guard != nullptr) options_.guard->run_id(facts_.run_id);
  journal_->begin_attempt(attempt_, restarts_done_);
  journal_->job(JobState::kDeploy, why, {}, code);
  Status ready = dir_.prepare(attempt_);
  if (ready && !options_.plan_json.empty()) ready = replace_file(dir_.plan(), options_.plan_json);
  if (ready) {
    if (restarts_done_ + moved_ == 0)
      say(fmt::format("{} learner{} of {} on {}; logs in {}/logs/latest", plan_.world_size(),
                      plan_.world_size() == 1 ? "" : "s", plan_.framework,
                      plan_.nodes.size() == 1 ? plan_.nodes[0].name : fmt::format("{} nodes", plan_.nodes.size()),
                      dir_.root()));
    if (!woken_) ready = start_agents();
  }
  if (!ready) agents_not_started(ready.error().text);
}

void Supervisor::agents_not_started(const std::string& why) {
  Failure failure;
  failure.kind = Failure::Kind::kNotStarted;
  failure.text = why;
  failure.exit = kExitCannotStart;
  failures_.push_back(failure);
  for (Learner& learner : learners_) learner.ended = !learner.said_hello;
  launcher_.kill_all(SIGKILL);
  check_attempt_over();
}

// Where each is planned to be, until its agent says so.
void Supervisor::name_hosts() {
  for (size_t i = 0; i < learners_.size(); ++i)
    learners_[i].host = plan_.nodes[static_cast<size_t>(plan_.learners[i].node)].name;
}

Status Supervisor::start_agents() {
  launcher_status_.reset();
  launcher_gone_ms_ = 0;
  descriptors_.reset();
  Status started = launcher_.start(endpoint_, secret_);
  descriptors_.emplace();
  return started;
}

// The agents of the attempt that has just ended have waited: they begin anew, which takes milliseconds where a new step
// takes a good part of a second. False if any of them is gone; then all of them go.
bool Supervisor::wake_agents() {
  const bool all_rest = !agents_have_pmi_ && launcher_.running() && !learners_.empty() && !agent_lost_ &&
                        std::all_of(learners_.begin(), learners_.end(), [this](const Learner& l) {
                          return l.connection != 0 && server_->connected(l.connection);
                        });
  for (const Learner& learner : learners_) {
    if (learner.connection == 0) continue;
    if (all_rest) server_->send(learner.connection, Again{});
    server_->close(learner.connection);
  }
  return all_rest;
}

// Not all agents that were woken have come back: new ones for all.
void Supervisor::start_cold() {
  woken_ = false;
  for (Learner& learner : learners_) {
    if (learner.connection != 0) server_->close(learner.connection);
    learner = Learner{};
  }
  name_hosts();
  open_pmix();
  rank_of_.clear();
  broken_.clear();
  hello_below_ = started_below_ = ended_below_ = 0;
  launcher_.kill_all(SIGTERM);
  attempt_started_ms_ = monotonic_ms();
  if (Status started = start_agents(); !started) agents_not_started(started.error().text);
}

void Supervisor::on_hello(ConnectionId id, const Hello& hello) {
  if (hello.role == "ctl") return;
  if (hello.role == "pmix") return on_pmix_hello(id, hello);
  bool valid = hello.role == "agent" && hello.rank >= 0 && hello.rank < plan_.world_size() &&
               phase_ == Phase::kStarting && !learners_[static_cast<size_t>(hello.rank)].said_hello;
  if (!valid || hello.version != kProtocolVersion) {
    if (hello.role == "agent" && hello.version != kProtocolVersion)
      std::fprintf(stderr, "dlrun: the agent on %s is of another version\n", hello.host.c_str());
    return server_->close(id);
  }
  Learner& learner = learners_[static_cast<size_t>(hello.rank)];
  learner.connection = id;
  if (hello.sessions) server_->open_session(id);
  rank_of_[id] = hello.rank;
  learner.said_hello = true;
  learner.heard_ms = monotonic_ms();
  learner.host = hello.host;
  learner.address = hello.address;
  learner.port = hello.port;
  learner.coordinator_port = hello.coordinator_port;
  learner.ras_port = hello.ras_port;
  agents_have_pmi_ = agents_have_pmi_ || hello.pmi;
  learner.ports = hello.ports;
  if (!hello.error.empty())
    return agents_not_started(fmt::format("the PMIx server (dl-pmix) on {}: {}", hello.host, hello.error));
  if (killing_) return server_->send(id, Kill{0});
  if (all_learners(&hello_below_, [](const Learner& l) { return l.said_hello; }) && pmix_ready() &&
      monotonic_ms() >= fence_until_ms_)
    start_learners();
}

void Supervisor::start_learners() {
  phase_ = Phase::kRunning;
  peers_->open();
  open_store();
  if (Status ready = open_http_store(); !ready) return agents_not_started(ready.error().text);
  facts_.master_addr = learners_[0].address;
  facts_.master_port = learners_[0].port;
  facts_.master_addr = plain_address(facts_.master_addr);
  facts_.coordinator_port = learners_[0].coordinator_port;
  facts_.ras_port = learners_[0].ras_port;
  if (plan_.peers)
    for (const Learner& learner : learners_) facts_.peers.push_back(first_port(learner.address, learner.ports));
  for (int rank = 0; rank < plan_.world_size(); ++rank) {
    Start start;
    start.context = plan::learner_context(plan_, rank, facts_);
    start.context.ports = learners_[static_cast<size_t>(rank)].ports;
    start.families = plan_.families;
    start.environment = plan_.framework_environment;
    start.activate = plan_.activate;
    start.command = plan_.command;
    start.container = plan_.container;
    if (plan_.bind != bind::BindMode::kNone) start.bind = bind::bind_name(plan_.bind);
    start.log = dir_.learner_log(attempt_, rank);
    start.prefix = plan_.world_size() > 1;
    start.quiet = options_.quiet;
    start.serves = plan_.serves(rank);
    start.gpu_look_ms = gpu_look_ms();
    start.hang_ms = plan_.serves(rank) ? 0 : options_.hang_ms;  // waiting is its work
    if (plan_.checkpoint) start.forced[env::kCheckpoint] = format_checkpoint(*plan_.checkpoint);
    if (std::string token = lease_.token(); !token.empty()) start.forced[env::kLease] = token;
    add_pmix_environment(rank, &start);
    server_->send(learners_[static_cast<size_t>(rank)].connection, start);
  }
}

void Supervisor::on_message(ConnectionId id, const Message& message) {
  if (const auto found = rank_of_.find(id); found != rank_of_.end()) {
    const int rank = found->second;
    learners_[static_cast<size_t>(rank)].heard_ms = monotonic_ms();
    // Of one that waits for the next attempt nothing more is to be heard.
    if (learners_[static_cast<size_t>(rank)].ended) return;
    if (const auto* started = std::get_if<Started>(&message))
      on_started(rank, *started);
    else if (const auto* progress = std::get_if<Progress>(&message))
      on_progress(rank, *progress);
    else if (const auto* report = std::get_if<StepReport>(&message))
      on_step_report(rank, *report);
    else if (const auto* exited = std::get_if<Exited>(&message))
      on_exited(rank, *exited);
    else if (const auto* notice = std::get_if<Notice>(&message))
      look_up_notice(notice->signal);
    else if (const auto* connects = std::get_if<Connects>(&message))
      peers_->answered(connects->query, connects->uid);
    else if (const auto* use = std::get_if<GpuUse>(&message))
      idle_.add(rank, monotonic_ms(), use->percent);
    else if (const auto* stalled = std::get_if<Stalled>(&message))
      on_stalled(rank, *stalled);
    else if (const auto* still = std::get_if<StandingStill>(&message))
      on_standing_still(rank, *still);
    return;
  }
  if (const auto found = pmix_.node_of.find(id); found != pmix_.node_of.end()) {
    if (const auto* pmix = std::get_if<Pmix>(&message)) on_pmix(found->second, pmix->body);
    return;
  }
  answer_ctl(id, message);
}

void Supervisor::on_started(int rank, const Started& started) {
  Learner& learner = learners_[static_cast<size_t>(rank)];
  learner.started = true;
  learner.pid = started.pid;
  learner.state = JobState::kProcessing;
  journal_->learner(rank, JobState::kProcessing, learner.host);
  if (!all_learners(&started_below_, [](const Learner& l) { return l.started || l.ended; })) return;
  if (running_since_ms_ == 0 || journal_->state() != JobState::kProcessing) {
    running_since_ms_ = last_save_ms_ = monotonic_ms();
    journal_->job(JobState::kProcessing, plan_.world_size() == 1 ? "the learner runs" : "all learners run");
  }
}

void Supervisor::on_progress(int rank, const Progress& progress) {
  Learner& learner = learners_[static_cast<size_t>(rank)];
  int64_t now = monotonic_ms();
  if (progress.step > learner.step && learner.step >= 0 && now > learner.step_seen_ms) {
    int64_t each = (now - learner.step_seen_ms) / (progress.step - learner.step);
    step_ms_ = step_ms_ == 0 ? each : (3 * step_ms_ + each) / 4;
  }
  if (progress.step != learner.step) {
    learner.step_seen_ms = now;
    learner.times.add(now, progress.step);
  }
  learner.page_state = progress.state;
  learner.ever_attached = learner.ever_attached || progress.state != ProgressPage::kNotAttached;
  learner.step = progress.step;
  learner.save_ms = progress.save_ms;
  learner.local_ms = progress.local_ms;
  learner.cost_ms = progress.cost_ms;
  if (progress.saved_step > learner.saved_step) {
    learner.saved_step = progress.saved_step;
    last_save_ms_ = now;
    // What one learner knows to be committed is committed for all.
    journal_->saved(learner.saved_step);
  }
  if (progress.done_request > 0) {
    agreement_.acted(rank, progress.done_request);
    if (!agreement_.open() && stop_waits_ && stop_) {
      stop_waits_ = false;
      begin_agreement(exit_request(*stop_));
    }
  }
}

void Supervisor::on_exited(int rank, const Exited& exited) {
  Learner& learner = learners_[static_cast<size_t>(rank)];
  if (learner.ended) return;
  learner.ended = true;
  learner.exit = exited.signal > 0 ? 128 + exited.signal : exited.exit;
  if (!may_keep_agents()) {
    server_->close(learner.connection);
    learner.connection = 0;
  }
  if (learner.hung) {
    learner.exit = kExitHang;
    agreement_.gone(rank);
    return check_attempt_over();
  }
  bool stopped = stop_ && (exited.exit == kExitSaved || exited.exit == kExitNotSaved);
  if (serving_over_ && plan_.serves(rank) && exited.asked && exited.error.empty()) learner.exit = 0;
  bool failed = !exited.error.empty() || (learner.exit != 0 && !stopped) || pmix_.aborts.count(rank) != 0;
  if (exited.stragglers > 0 && !killing_)
    say(fmt::format("learner {} left processes behind ({}), which were killed", rank, exited.stragglers));
  if (!failed) {
    learner.state = stopped ? JobState::kHalted : JobState::kCompleted;
    journal_->learner(rank, learner.state, learner.host, "", "", learner.exit);
    agreement_.gone(rank);
    tell_of_end(rank, false);
    settle_agreement();
    int alive = 0, attached = 0;
    for (const Learner& other : learners_) {
      if (plan_.serves(static_cast<int>(&other - learners_.data()))) continue;
      alive += other.ended ? 0 : 1;
      attached += !other.ended && other.ever_attached ? 1 : 0;
    }
    // Only such are left as cannot be asked.
    if (stop_ && !stop_->killing && !agreement_.open() && alive > 0 && attached == 0) stop_without_agreement();
    if (alive == 0 && serving_until_ms_ == 0) serving_until_ms_ = monotonic_ms() + kServeOnMs;
  } else {
    Failure failure;
    failure.kind = !exited.error.empty() ? Failure::Kind::kNotStarted
                   : exited.signal > 0   ? Failure::Kind::kSignal
                                         : Failure::Kind::kExit;
    failure.signal = exited.signal;
    failure.exit = exited.error.empty() ? exited.exit : kExitNotFound;
    if (exited.error.find("Permission denied") != std::string::npos) failure.exit = kExitNotExecutable;
    failure.asked = exited.asked;
    failure.text = exited.error;
    failure.memory = exited.memory;
    failure.exception = exited.exception;
    failure.last_lines = exited.last_lines;
    add_abort(rank, &failure);
    learner_failed(rank, failure);
  }
  check_attempt_over();
}

// Nobody is left to be served: those that have not ended by themselves are ended.
void Supervisor::tick_serving(int64_t now_ms) {
  if (serving_until_ms_ == 0 || now_ms < serving_until_ms_ || killing_ || phase_ != Phase::kRunning) return;
  serving_over_ = true;
  kill_learners(kFailureGraceMs);
}

void Supervisor::learner_failed(int rank, Failure failure) {
  Learner& learner = learners_[static_cast<size_t>(rank)];
  failure.rank = rank;
  failure.host = plan_.nodes.size() > 1 ? learner.host : "";
  failure.at_ms = monotonic_ms();
  failure.step = learner.step;
  learner.state = failure.asked ? JobState::kHalted : JobState::kFailed;
  learner.exit = exit_status(failure);
  if (failure.asked) {
    journal_->learner(rank, learner.state, learner.host, "ended by dlrun", "", learner.exit);
  } else {
    const FailureClass its = classify(failure, site_.failures);
    journal_->learner_failed(rank, learner.host, describe(failure), its, failure_signature(failure, its), learner.exit);
  }
  failures_.push_back(std::move(failure));
  agreement_.gone(rank);
  if (tell_of_end(rank, true)) return kill_after_notice(kFailureGraceMs);
  kill_learners(kFailureGraceMs);
}

// The attempt is over for all that have not ended, by this failure; agents end when their connection is closed.
// only_silent: it is no fault of those whose agent had said hello.
void Supervisor::give_up_learners(const Failure& failure, bool only_silent) {
  const bool were_to_end = killing_;  // the first failure below makes all the others end
  for (size_t i = 0; i < learners_.size(); ++i) {
    Learner& learner = learners_[i];
    if (learner.ended) continue;
    learner.ended = true;
    server_->close(learner.connection);
    learner.connection = 0;
    Failure its = failure;
    its.asked = were_to_end || (only_silent && learner.said_hello);
    its.exit = kExitCannotStart;
    learner_failed(static_cast<int>(i), std::move(its));
  }
  launcher_.kill_all(SIGKILL);
  check_attempt_over();
}

void Supervisor::kill_learners(int grace_ms) {
  if (killing_ && grace_ms > 0) return;
  killing_ = true;
  kill_deadline_ms_ = monotonic_ms() + grace_ms + kKillLimitMs;
  for (const Learner& learner : learners_)
    if (!learner.ended && learner.connection != 0) server_->send(learner.connection, Kill{grace_ms});
}

void Supervisor::check_attempt_over() {
  if (phase_ != Phase::kStarting && phase_ != Phase::kRunning) return;
  if (!all_learners(&ended_below_, [](const Learner& l) { return l.ended; })) return;
  phase_ = Phase::kOver;
  close_stores();
  close_pmix();
  end_attempt();
}

}  // namespace dl::supervise
