// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "common/base/awake_clock.h"
#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "common/contract/progress_page.h"
#include "common/contract/rank_list.h"
#include "common/contract/request_values.h"
#include "common/process/child_process.h"
#include "common/process/descendants.h"
#include "common/process/signal_sets.h"
#include "launcher/agent/error_file.h"
#include "launcher/agent/learner.h"
#include "launcher/agent/network_interface.h"
#include "launcher/agent/socket_owner.h"

namespace dl::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnectLimit = 30s;
constexpr auto kPollPage = 250ms;   // how often the progress page is looked at: the learner's node is woken each time
constexpr auto kPollRequest = 3ms;  // how often it is looked at while a request is open
constexpr auto kReportSteps = 1000ms;  // how often train steps are reported if nothing else changes
constexpr auto kKillLimit = 3s;
constexpr int kMaxHeldPorts = 64;
constexpr size_t kMaxRest = 1 << 20;  // more than a pipe holds

int64_t milliseconds(const timeval& time) {
  return int64_t{time.tv_sec} * 1000 + time.tv_usec / 1000;
}

Result<int> own_rank() {
  std::string text = environment_value(env::kControlRank);
  if (!text.empty() && (text[0] < '0' || text[0] > '9')) text = environment_value(text.c_str());
  auto number = parse_int(text, 0, kMaxLearners - 1);
  if (!number) return std::move(number).error().with_context(env::kControlRank);
  const std::string ranks = environment_value(env::kControlRanks);
  if (ranks.empty()) return static_cast<int>(*number);
  auto rank = rank_at(ranks, *number);
  if (!rank) return std::move(rank).error().with_context(env::kControlRanks);
  return *rank;
}

}  // namespace

Status Agent::watch_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD}) sigaddset(&set, signal);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error("block signals", errno);
  ::signal(SIGPIPE, SIG_IGN);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return errno_error("watch signals", errno);
  return {};
}

Status Agent::greet() {
  DL_TRY_ASSIGN(rank_, own_rank());
  secret_ = environment_value(env::kSecret);
  DL_TRY_ASSIGN(auto endpoint, protocol::parse_endpoint(environment_value(env::kControl)));
  DL_TRY(channel_.connect(endpoint.first, endpoint.second, kConnectLimit));
  protocol::Hello hello;
  hello.role = "agent";
  hello.secret = secret_;
  hello.rank = rank_;
  hello.host = node_name();
  hello.address = channel_.local_address();
  hello.pid = ::getpid();
  hello.start = protocol::start_number();
  if (Status started = pmix_.start(rank_); !started) hello.error = started.error().text;
  hello.pmi = std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr;
  DL_TRY(hold_ports(&hello));
  channel_.greet(std::move(hello));
  return {};
}

// Holds the ports of rank 0. They are held in any case, because the agent does not know yet which families of
// environment variables the learner gets.
Status Agent::hold_ports(protocol::Hello* hello) {
  if (rank_ == 0) {
    for (HeldPort* port : {&port_, &coordinator_port_, &ras_port_}) DL_TRY(port->hold());
    hello->port = port_.port();
    hello->coordinator_port = coordinator_port_.port();
    hello->ras_port = ras_port_.port();
  }
  const std::string wanted = environment_value(env::kHoldPorts);
  if (wanted.empty()) return {};
  auto count = parse_int(wanted, 0, kMaxHeldPorts);
  if (!count) return std::move(count).error().with_context(env::kHoldPorts);
  ports_.resize(static_cast<size_t>(*count));
  for (HeldPort& port : ports_) {
    DL_TRY(port.hold());
    hello->ports.push_back(port.port());
  }
  return {};
}

Result<Agent::End> Agent::run() {
  DL_TRY(watch_signals());
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return errno_error("become a subreaper", errno);
  data_.adopt();
  DL_TRY(greet());
  while (!leave_) {
    wait_for_events();
    channel_.tick();
    if (again_) {
      metrics_.leave();
      data_.keep();
      return End::kAgain;
    }
    if (channel_.closed()) {
      if (done_) {
        asked_ = true;  // a learner that has ended is no reason to put the job back
        if (terminated_) see_to_requeue();
        return End::kDone;
      }
      lost_dlrun();
      return End::kLost;
    }
    if (Clock::now() >= kill_at_ && learner_ > 0) {
      kill_at_ = Clock::time_point::max();
      // First the learner with its process group. What it started outside the group is ended by learner_ended().
      ::kill(-learner_, SIGKILL);
      ::kill(learner_, SIGKILL);
    }
    report_progress(false);
    watch_log();
    watch_progress();
    watch_votes();
    watch_use();
    watch_data();
  }
  channel_.close(5s);
  return End::kDone;
}

int Agent::poll_timeout_ms() const {
  auto wait = request_open_ ? std::chrono::milliseconds(kPollRequest) : std::chrono::milliseconds(kPollPage);
  // The logs of several learners are shown together by when they were looked at (logs/merge), so each agent is
  // punctual.
  if (log_look_ms_ > 0 && !done_) {
    const std::chrono::milliseconds left(log_looked_ms_ + log_look_ms_ - awake_ms());
    wait = std::clamp(left, std::chrono::milliseconds(1), wait);
  }
  if (kill_at_ != Clock::time_point::max()) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(kill_at_ - Clock::now()) + 1ms;
    wait = std::clamp(left, std::chrono::milliseconds(0), wait);
  }
  return static_cast<int>(wait.count());
}

void Agent::wait_for_events() {
  bool read_pipe = output_ && tee_.wants_input();
  constexpr int kOwn = 4;
  pollfd fds[kOwn + protocol::Channel::kWatched] = {{signals_.get(), POLLIN, 0},
                                                    {read_pipe ? output_.get() : -1, POLLIN, 0},
                                                    {tee_.has_pending() ? STDOUT_FILENO : -1, POLLOUT, 0},
                                                    {gpus_.fd(), POLLIN, 0}};
  channel_.watch(fds + kOwn);
  int n = ::poll(fds, kOwn + protocol::Channel::kWatched, poll_timeout_ms());
  if (n < 0) return;  // EINTR
  if (fds[1].revents != 0) read_output();
  if (fds[2].revents != 0) tee_.write_pending();
  if (fds[3].revents != 0) report_gpus();
  if (fds[0].revents != 0) handle_signals();
  for (const protocol::ControlMessage& message : channel_.handle(fds + kOwn)) handle(message);
}

void Agent::handle_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
      continue;
    }
    terminated_ = terminated_ || signal == SIGTERM;
    if (signal == passed_signal_ && !done_) pass_on(signal);
    if (signal != SIGCONT && !done_) {
      channel_.send(protocol::Notice{signal});
    }
  }
}

// Slurm gave the signal to the task alone, which is this agent, or the batch script gave it to dlrun; without dlrun the
// learner would have been the task, or the script's child. One without a handler would be ended by it, before it can
// save. One that uses the checkpoint library saves when dlrun says so, and its handler may be the library's, or put the
// job back before the save.
void Agent::pass_on(int signal) {
  if (learner_ <= 0) return;
  if (!progress_.path().empty() && progress_.read().state != ProgressPage::kNotAttached) return;
  const auto sets = signal_sets_of(learner_);
  if (sets && SignalSets::has(sets->caught, signal)) ::kill(learner_, signal);
}

void Agent::reap() {
  int status = 0;
  pid_t pid;
  rusage used = {};
  while ((pid = ::wait4(-1, &status, WNOHANG, &used)) > 0)
    if (pid == learner_) {
      learner_ended(status, milliseconds(used.ru_utime) + milliseconds(used.ru_stime));
    } else if (pid == stacks_writer_) {
      stacks_taken();
    } else {
      pmix_.reaped(pid);
      gpus_.reaped(pid);
      metrics_.reaped(pid);
      if (const auto fetched = data_.reaped(pid, shell_exit_code(status))) channel_.send(*fetched);
    }
}

void Agent::feed(std::string_view output) {
  tee_.feed(output);
  const LogTee::Lost& lost = tee_.lost();
  const bool news = (lost.bytes > 0 && !std::exchange(loss_said_, true)) ||
                    (!lost.output.empty() && !std::exchange(output_loss_said_, true));
  if (news) channel_.send(protocol::LogLost{lost.bytes, lost.error, lost.output});
}

void Agent::read_output() {
  char buffer[65536];
  while (output_ && tee_.wants_input()) {
    ssize_t n = ::read(output_.get(), buffer, sizeof buffer);
    if (n > 0) {
      log_bytes_ += static_cast<uint64_t>(n);
      last_.feed({buffer, static_cast<size_t>(n)});
      feed({buffer, static_cast<size_t>(n)});
      if (static_cast<size_t>(n) < sizeof buffer) return;
      continue;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    output_.reset();
  }
}

// Reads what the pipe still holds, without writing it anywhere: neither a full disk nor a slow reader of standard
// output may delay the message that the learner has ended.
std::string Agent::take_rest() {
  std::string rest;
  char buffer[65536];
  while (output_ && rest.size() < kMaxRest) {
    ssize_t n = ::read(output_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rest.append(buffer, static_cast<size_t>(n));
  }
  last_.feed(rest);
  return rest;
}

void Agent::on_start(const protocol::Start& message) {
  if (started_) return;
  started_ = true;
  protocol::Start start = message;
  // Only this node knows the name of its interface: on another node the same network may have another name.
  start.context.interface = interface_of(channel_.local_address());
  protocol::Exited failed;
  failed.exit = -1;
  int ends[2];
  if (start.line_prefix.empty() && start.prefix) start.line_prefix = fmt::format("[{}] ", rank_);
  if (Status opened = tee_.open(start.log, start.quiet ? -1 : STDOUT_FILENO, start.line_prefix, start.log_limit);
      !opened) {
    failed.error = opened.error().text;
    return send_exit(failed);
  }
  // Without its progress page a learner can still train, but cannot be asked to save.
  if (Status created = progress_.create(rank_); !created)
    tee_.feed("dl-agent: " + created.error().text + ": this learner cannot be asked to save\n");
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    failed.error = errno_error("create a pipe for the learner's output", errno).text;
    return send_exit(failed);
  }
  output_.reset(ends[0]);
  UniqueFd write_end(ends[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  if (!start.context.log_dir.empty())
    error_file_ = fmt::format("{}/learner-{}.error.json", start.context.log_dir, start.context.rank);
  memory_.start();
  watching_ = start.hang_ms > 0;
  passed_signal_ = start.passed_signal;
  log_look_ms_ = start.log_look_ms;
  first_on_node_ = start.context.local_rank == 0;
  requeue_ = {start.context.job_dir, std::to_string(start.context.attempt), std::to_string(start.context.node_rank)};
  watch_ = ProgressWatch(start.hang_ms);
  if (start.free_ports)
    for (HeldPort& port : ports_) port.release();
  learner_since_ms_ = unix_ms();
  Result<pid_t> pid = start_learner(start, progress_.path(), write_end.get());
  if (!pid) {
    failed.error = pid.error().text;
    tee_.feed("dl-agent: " + failed.error + "\n");
    return send_exit(failed);
  }
  learner_ = *pid;
  channel_.send(protocol::Started{*pid});
  watch_gpus(start);
  read_metrics(start);
}

void Agent::learner_ended(int wait_status, int64_t cpu_ms) {
  protocol::Exited exited;
  if (WIFSIGNALED(wait_status)) {
    exited.exit = -1;
    exited.signal = WTERMSIG(wait_status);
  } else {
    exited.exit = WEXITSTATUS(wait_status);
  }
  learner_ = 0;
  if (const auto use = use_.last(cpu_ms, awake_ms())) {
    channel_.send(*use);
    report_gpus(/*rest=*/true);
  }
  gpus_.stop();
  if (stacks_writer_ > 0) {
    ::kill(stacks_writer_, SIGKILL);
    ::waitpid(stacks_writer_, nullptr, 0);
    stacks_writer_ = 0;
  }
  exited.stragglers = kill_descendants(kKillLimit, {pmix_.pid(), metrics_.pid(), data_.pid()});
  const std::string rest = take_rest();
  add_cause(&exited);
  send_exit(exited, rest);
}

void Agent::add_cause(protocol::Exited* exited) const {
  if (exited->exit == 0) return;
  exited->memory = died_of_memory(exited->exit, exited->signal, asked_, memory_.at_start(), memory_.now());
  exited->exception = read_error_file(error_file_);
  if (exited->exception.empty()) exited->exception = last_.exception();
  exited->last_lines = last_.lines();
}

void Agent::send_exit(protocol::Exited exited, const std::string& rest) {
  exited.asked = asked_;
  exited.log_lost = {tee_.lost().bytes, tee_.lost().error, tee_.lost().output};
  report_progress(true);
  report_log(tee_.log_bytes() + rest.size());
  channel_.send(exited);  // first of all: other learners may hang until dlrun knows
  feed(rest);
  read_output();
  tee_.finish(2s);
  metrics_.close();
  done_ = true;
  channel_.expect_end();
}

void Agent::report_progress(bool force) {
  if (!started_ || done_ || progress_.path().empty()) return;
  protocol::ProgressFile::View now = progress_.read();
  if (request_open_ && now.acted) request_open_ = false;
  int64_t done_request = request_open_ ? reported_done_ : request_;
  bool important = now.state != reported_.state || now.saved_step != reported_.saved_step ||
                   now.save_ms != reported_.save_ms || now.local_ms != reported_.local_ms ||
                   done_request != reported_done_;
  bool steps = now.step != reported_.step && Clock::now() - last_report_ >= kReportSteps;
  if (!important && !steps && !(force && now.step != reported_.step)) return;
  last_report_ = Clock::now();
  reported_ = now;
  reported_done_ = done_request;
  channel_.send(protocol::Progress{now.state, now.step, now.saved_step, now.save_ms, done_request, now.local_ms,
                                   now.cost_ms, now.noise});
}

void Agent::handle(const protocol::ControlMessage& message) {
  if (const auto* start = std::get_if<protocol::Start>(&message)) {
    on_start(*start);
  } else if (const auto* request = std::get_if<protocol::Request>(&message)) {
    if (progress_.path().empty()) {
      channel_.send(protocol::StepReport{request->request, false, 0, -1});
      return;
    }
    request_ = request->request;
    request_open_ = true;
    protocol::ProgressFile::View view = progress_.request(request->kind);
    channel_.send(protocol::StepReport{request_, view.state != ProgressPage::kNotAttached, view.state, view.step});
  } else if (const auto* decide = std::get_if<protocol::Decide>(&message)) {
    if (decide->request == request_ && !progress_.path().empty()) progress_.decide(decide->kind, decide->stop_step);
  } else if (const auto* withdraw = std::get_if<protocol::Withdraw>(&message)) {
    if (withdraw->request == request_ && !progress_.path().empty()) progress_.withdraw();
    request_open_ = false;
  } else if (const auto* signal = std::get_if<protocol::Signal>(&message)) {
    if (signal->handed_on) return pass_on(signal->signal);
    asked_ = asked_ || signal->signal == SIGTERM || signal->signal == SIGINT || signal->signal == SIGKILL;
    if (learner_ > 0 && signal->signal > 0 && signal->signal < NSIG) ::kill(-learner_, signal->signal);
  } else if (const auto* fetch = std::get_if<protocol::Fetch>(&message)) {
    fetch_data(*fetch);
  } else if (std::holds_alternative<protocol::Again>(message)) {
    again_ = done_ || !started_;  // the agent of a place of a pool may have waited for nothing
  } else if (const auto* stacks = std::get_if<protocol::Stacks>(&message)) {
    take_stacks(stacks->path);
  } else if (const auto* who = std::get_if<protocol::WhoConnects>(&message)) {
    const auto uid = socket_owner({who->client, who->client_port, who->server_port});
    channel_.send(protocol::Connects{who->query, uid ? static_cast<int>(*uid) : -1});
  } else if (const auto* kill_message = std::get_if<protocol::Kill>(&message)) {
    asked_ = true;
    if (!started_) {
      leave_ = true;
      return;
    }
    if (learner_ > 0 && kill_message->grace_ms > 0) ::kill(-learner_, SIGTERM);
    kill_at_ = std::min(kill_at_, Clock::now() + std::chrono::milliseconds(std::max(0, kill_message->grace_ms)));
  }
}

}  // namespace dl::agent
