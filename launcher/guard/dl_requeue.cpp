// SPDX-License-Identifier: Apache-2.0
// dl-requeue JOB_DIR ATTEMPT NODE: the first agent of a node whose dlrun is gone runs it (agent/agent_lost.cpp). It
// asks Slurm to requeue the job, if nobody else does and if the job's owner would want that (requeue.h). If the job was
// cancelled, it records that. NODE is the number of this node within the job. Exit status: 0 whatever came of it, 2 for
// a wrong command line. Users do not call it.
#include <fmt/core.h>
#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "launcher/guard/requeue.h"
#include "launcher/protocol/connect_by.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/event_log.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_dir.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kDoorLimit = 1000ms;
constexpr auto kLook = 100ms;
constexpr auto kTryAgain = 3s;  // if slurmctld does not answer
constexpr auto kLimit = 100s;   // in all; by then Slurm itself has noticed, or will
constexpr auto kKeepFor = 45s;
constexpr int kMostLooks = 3;  // at a job that ends, until Slurm tells how

int number(const std::string& text) {
  const auto value = dl::parse_int(text, 0, 1 << 30);
  return value ? static_cast<int>(*value) : 0;
}

struct Ours {
  dl::record::JobDir dir;
  int attempt = 0, node_rank = 0, restart_count = 0;
  std::string job;  // the job's number; used only to ask, since it may name a whole array
  std::string node, secret, endpoint;

  bool control_is_ours() const {
    const auto control = dl::record::read_control(dir.control());
    return control && control->secret == secret;
  }
  bool attempt_is_newest() const {
    char target[PATH_MAX];
    const ssize_t n = ::readlink((dir.logs() + "/latest").c_str(), target, sizeof target);
    return n > 0 && std::string(target, static_cast<size_t>(n)) == "attempt-" + std::to_string(attempt);
  }
};

bool end_is_recorded(const Ours& ours) {
  const auto history = dl::record::read_events(ours.dir.events());
  return history && dl::guard::says_its_end(history->events, ours.attempt);
}

dl::guard::Door try_door(const std::string& endpoint) {
  const auto parsed = dl::protocol::parse_endpoint(endpoint);
  if (!parsed) return dl::guard::Door::kOpen;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(parsed->first.c_str(), std::to_string(parsed->second).c_str(), &hints, &found) != 0)
    return dl::guard::Door::kOpen;
  dl::UniqueFd fd;
  const int failure = dl::protocol::connect_by(Clock::now() + kDoorLimit, *found, &fd);
  ::freeaddrinfo(found);
  if (failure == 0) return dl::guard::Door::kOpen;
  return failure == ECONNREFUSED ? dl::guard::Door::kClosed : dl::guard::Door::kSilent;
}

// Records this state in the job's events, which nobody else writes any more.
void write_event(const Ours& ours, dl::record::JobState state, const std::string& reason, const char* code) {
  auto log = dl::record::EventLog::open(ours.dir.events());
  if (!log) return;
  dl::record::Event event;
  event.attempt = ours.attempt;
  event.state = state;
  event.reason = reason;
  event.code = code;
  dl::ignore(log->append(std::move(event)), "the requeue matters more");
}

// Only the node that removes control.json records it.
void record_cancelled(const Ours& ours) {
  if (std::remove(ours.dir.control().c_str()) != 0) return;
  write_event(ours, dl::record::JobState::kFailed,
              "cancelled: dlrun was ended with the batch script, so nothing more was saved", "");
}

void set_comment(const dl::slurm_cli::JobInfo& job, const std::string& reason) {
  auto comment = dl::record::parse_comment(job.comment);
  if (!comment) return;
  comment->state = dl::record::JobState::kPending;
  comment->idle = {};
  comment->reason = reason;
  dl::ignore(dl::slurm_cli::set_comment(job.job_id, dl::record::format_comment(*comment)), "the requeue matters more");
}

// The time after which the job may start again, instead of Slurm's two minutes: until its nodes can be free. A node
// that does not answer holds the job until Slurm marks it down, and Slurm's own delay would begin only then.
std::chrono::seconds delay_for(dl::guard::Door door) {
  const std::chrono::seconds delay = dl::slurm_cli::requeue_delay();
  return door == dl::guard::Door::kSilent ? delay + dl::slurm_cli::slurmd_timeout() : delay;
}

void ask(const Ours& ours, dl::guard::Door door) {
  const Clock::time_point end = Clock::now() + kLimit;
  const bool requeues = std::getenv(dl::env::kMayRequeue) != nullptr;
  int looks = 0;
  for (; Clock::now() < end; std::this_thread::sleep_for(looks > 0 ? 1s : kTryAgain)) {
    if (!ours.control_is_ours() || try_door(ours.endpoint) == dl::guard::Door::kOpen) return;
    auto job = dl::slurm_cli::show_job(ours.job);
    if (!job && job.error().code == dl::Errc::kNotFound) return;
    if (!job) continue;
    dl::guard::Left left{
        *job, ours.restart_count, ours.node, ours.control_is_ours(), ours.attempt_is_newest(), end_is_recorded(ours)};
    if (!requeues || !dl::guard::may_requeue(left)) {
      const dl::guard::Cancelled cancelled = dl::guard::was_cancelled(left);
      if (cancelled == dl::guard::Cancelled::kNotYet && ++looks < kMostLooks) continue;
      if (cancelled == dl::guard::Cancelled::kYes) record_cancelled(ours);
      return;
    }
    const std::string reason = fmt::format(
        "dlrun {}; put back by the agent on {}",
        door == dl::guard::Door::kSilent ? "or its node " + job->batch_host + " was lost" : "and its guard were killed",
        ours.node);
    const bool ended = job->state != "RUNNING";  // Slurm then accepts a comment only after the requeue
    if (!ended) set_comment(*job, reason);
    std::fprintf(stderr, "dl-requeue: %s\n", reason.c_str());
    const std::chrono::seconds delay = delay_for(door);
    dl::Status done = dl::slurm_cli::requeue(job->job_id, false, delay);
    if (!done) {
      std::fprintf(stderr, "dl-requeue: %s\n", done.error().text.c_str());
      continue;
    }
    write_event(ours, dl::record::JobState::kPending, reason, door == dl::guard::Door::kSilent ? "S104" : "S105");
    if (ended) set_comment(*job, reason);
    // Keeps setting the begin time as dlrun does (Supervisor::perform(KeepStartTime)), until Slurm kills this process.
    if (door == dl::guard::Door::kSilent) return;
    for (const Clock::time_point keep = Clock::now() + kKeepFor; Clock::now() < keep;) {
      std::this_thread::sleep_for(1s);
      const auto now = dl::slurm_cli::show_job(ours.job);
      if (!now || now->state != "COMPLETING") return;
      dl::ignore(dl::slurm_cli::set_start_time(job->job_id, delay), "the requeue has set it once already");
    }
    return;
  }
}

int run(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // standard error leads to an srun on a node that may be gone
  Ours ours;
  ours.job = dl::environment_value("SLURM_JOB_ID");
  ours.secret = dl::environment_value(dl::env::kSecret);
  ours.endpoint = dl::environment_value(dl::env::kControl);
  ours.node = dl::environment_value("SLURMD_NODENAME");
  ours.restart_count = number(dl::environment_value("SLURM_RESTART_COUNT"));
  if (argc != 4 || ours.job.empty() || ours.secret.empty()) {
    std::fprintf(stderr, "dl-requeue: this program is started by dl-agent; see dlrun(1)\n");
    return 2;
  }
  ours.dir = dl::record::JobDir(argv[1]);
  ours.attempt = number(argv[2]);
  ours.node_rank = number(argv[3]);
  if (ours.node_rank >= dl::guard::kAskers || !ours.control_is_ours()) return 0;
  const dl::guard::Door door = try_door(ours.endpoint);
  if (door == dl::guard::Door::kOpen) return 0;
  const Clock::time_point turn = Clock::now() + dl::guard::patience(door) + ours.node_rank * dl::guard::kNextAsker;
  while (Clock::now() < turn) {
    if (!ours.control_is_ours()) return 0;
    std::this_thread::sleep_for(kLook);
  }
  ask(ours, door);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  return run(argc, argv);
} catch (const std::exception& e) {
  std::fprintf(stderr, "dl-requeue: %s\n", e.what());
  return 0;
}
