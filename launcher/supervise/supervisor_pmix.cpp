// SPDX-License-Identifier: Apache-2.0
// The PMIx servers of an attempt (launcher/pmix): one on each node, started by the agent of its first learner. Learners
// start when all of them are ready; they hear through them of a peer that is lost, before they are ended for it.
#include <fmt/core.h>

#include <algorithm>

#include "common/contract/exit_codes.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

constexpr int64_t kReadyLimitMs = 30000;  // for the servers, once all agents have come
constexpr int64_t kAbortLimitMs = 2000;   // for a learner that has called MPI_Abort to end by itself
constexpr int kNoticeMs = 100;            // for learners to hear of a lost peer before they are asked to end

bool speaks_of_pmix(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const std::string_view begin = std::string_view(line).substr(0, 400);
    for (const std::string_view word : {"PMIX", "PMIx", "OPAL ERROR", "ompi_mpi_init", "MPI_Init"})
      if (begin.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

// A namespace of its own for each attempt, since PMIx knows each process once; with random digits, since whoever knows
// it may call itself one of its processes.
void Supervisor::open_pmix() {
  close_pmix();
  pmix_ = PmixJob{};
  if (plan().pmix_server.empty()) return;
  std::vector<std::vector<int>> ranks(plan().nodes.size());
  for (const plan::PlannedLearner& learner : plan().learners)
    ranks[static_cast<size_t>(learner.node)].push_back(learner.rank);
  pmix_.servers.resize(plan().nodes.size());
  pmix_.exchange = pmix::Exchange(ranks);
  pmix_.came.assign(attempt_.learners.size(), false);
  auto random = make_secret();
  pmix_.job.space = fmt::format("dl.{}.{}.{}", plan().job_id.substr(0, 64), attempts_, random ? *random : secret_);
  pmix_.job.ranks = std::move(ranks);
  for (const plan::PlannedNode& node : plan().nodes) pmix_.job.nodes.push_back(node.name);
}

void Supervisor::close_pmix() {
  for (PmixServer& server : pmix_.servers) {
    if (server.connection != 0) server_->close(server.connection);
    server.connection = 0;
  }
  pmix_.node_of.clear();
}

void Supervisor::on_pmix_hello(ConnectionId id, const Hello& hello) {
  const bool known = state_.may_greet() && hello.rank >= 0 && hello.rank < plan().world_size();
  const int node = known ? plan().learners[static_cast<size_t>(hello.rank)].node : -1;
  if (pmix_.servers.empty() || node < 0 || pmix_.servers[static_cast<size_t>(node)].connection != 0 ||
      hello.version != kProtocolVersion)
    return server_->close(id);
  pmix_.servers[static_cast<size_t>(node)].connection = id;
  pmix_.node_of[id] = node;
  if (hello.sessions) server_->open_session(id);
  pmix::Job job = pmix_.job;
  job.node = node;
  server_->send(id, Pmix{pmix::encode(job)});
}

bool Supervisor::pmix_ready() const {
  return std::all_of(pmix_.servers.begin(), pmix_.servers.end(), [](const PmixServer& s) { return s.ready; });
}

void Supervisor::add_pmix_environment(int rank, Start* start) const {
  if (pmix_.servers.empty()) return;
  const plan::PlannedLearner& learner = plan().learners[static_cast<size_t>(rank)];
  const PmixServer& server = pmix_.servers[static_cast<size_t>(learner.node)];
  if (static_cast<size_t>(learner.local_rank) < server.learners.size())
    for (const auto& [name, value] : server.learners[static_cast<size_t>(learner.local_rank)])
      start->forced[name] = value;
}

void Supervisor::answer_pmix(const pmix::Exchange::Answers& answers) {
  for (const pmix::Exchange::Answer& answer : answers) {
    const ConnectionId id = pmix_.servers[static_cast<size_t>(answer.node)].connection;
    if (id != 0) server_->send(id, Pmix{pmix::encode(answer.message)});
  }
}

void Supervisor::on_pmix(int node, const std::string& body) {
  auto message = pmix::decode(body);
  if (!message)
    return say(
        fmt::format("warning: dl-pmix on {}: {}", pmix_.job.nodes[static_cast<size_t>(node)], message.error().text));
  const auto own = [&](int rank) {
    const auto& ranks = pmix_.job.ranks[static_cast<size_t>(node)];
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  };
  if (auto* ready = std::get_if<pmix::Ready>(&*message)) {
    PmixServer& server = pmix_.servers[static_cast<size_t>(node)];
    server.ready = true;
    server.learners = std::move(ready->learners);
    pmix_.version = ready->version;
    return;  // tick() and on_hello() start the learners
  }
  if (const auto* failed = std::get_if<pmix::Failed>(&*message)) return pmix_lost(node, failed->text);
  if (const auto* client = std::get_if<pmix::Client>(&*message)) {
    if (!own(client->rank) || !client->connected) return;
    if (!pmix_said_) say(fmt::format("learners are served by dl-pmix ({})", pmix_.version));
    pmix_said_ = pmix_.came[static_cast<size_t>(client->rank)] = true;
    return;
  }
  if (const auto* refused = std::get_if<pmix::Refused>(&*message))
    return say(
        fmt::format("learner {} may not {}: a job has the learners that it was started with; others in the same "
                    "call may wait for it without end",
                    refused->rank, refused->what));
  if (const auto* abort = std::get_if<pmix::Abort>(&*message); abort != nullptr && own(abort->rank))
    pmix_.aborts.emplace(abort->rank, PmixAbort{abort->status, awake_ms()});
  answer_pmix(pmix_.exchange.handle(node, *message));
}

// A server is gone, or cannot go on: without it learners that use it cannot, either.
void Supervisor::pmix_lost(int node, const std::string& why) {
  PmixServer& server = pmix_.servers[static_cast<size_t>(node)];
  server.broken.clear();
  pmix_.node_of.erase(server.connection);
  if (server.connection != 0) server_->close(server.connection);
  server.connection = 0;
  const std::string& name = pmix_.job.nodes[static_cast<size_t>(node)];
  if (state_.phase == Phase::kStarting)
    return agents_not_started(fmt::format("the PMIx server (dl-pmix) on {} {}", name, why));
  if (!state_.running()) return;
  // Where all of the node's learners have ended, or none has ever come to it, nobody misses it: most programs that are
  // started as "generic" are no MPI programs.
  bool any_runs = false;
  for (const int rank : pmix_.job.ranks[static_cast<size_t>(node)]) {
    const bool runs = !attempt_.learners[static_cast<size_t>(rank)].ended;
    any_runs = any_runs || runs;
    if (!runs || !pmix_.came[static_cast<size_t>(rank)]) continue;
    Failure failure;
    failure.kind = Failure::Kind::kAgentLost;
    failure.text = fmt::format("the PMIx server (dl-pmix) on {} {}", name, why);
    return learner_failed(rank, failure);
  }
  if (any_runs)
    say(fmt::format("warning: the PMIx server (dl-pmix) on {} {}; no learner there has used it", name, why));
}

// True if learners are told of this: they are asked to end a little later. Who of them wants to hear it libpmix does
// not say; those that have never come to PMIx do not.
bool Supervisor::tell_of_end(int rank, bool failed) {
  if (pmix_.servers.empty()) return false;
  answer_pmix(pmix_.exchange.gone(rank, failed));
  if (!failed) return false;
  const std::string lost = pmix::encode(pmix::Lost{rank, attempt_.learners[static_cast<size_t>(rank)].exit});
  for (const PmixServer& server : pmix_.servers)
    if (server.connection != 0) server_->send(server.connection, Pmix{lost});
  return std::find(pmix_.came.begin(), pmix_.came.end(), true) != pmix_.came.end();
}

void Supervisor::kill_after_notice(int grace_ms) {
  if (state_.ending() || pmix_.kill_at_ms != 0) return;
  pmix_.kill_at_ms = awake_ms() + kNoticeMs;
  pmix_.kill_grace_ms = std::max(1, grace_ms - kNoticeMs);
}

void Supervisor::tick_pmix(int64_t now_ms) {
  if (pmix_.servers.empty()) return;
  look_at_pmix_ways();
  if (pmix_.kill_at_ms != 0 && now_ms >= pmix_.kill_at_ms) {
    pmix_.kill_at_ms = 0;
    handle(EndLearners{pmix_.kill_grace_ms});
  }
  const bool all_hello = attempt_.all_said_hello();
  if (state_.phase == Phase::kStarting && all_hello && !pmix_ready()) {
    if (pmix_.waiting_since_ms == 0) pmix_.waiting_since_ms = now_ms;
    const auto missing =
        std::find_if(pmix_.servers.begin(), pmix_.servers.end(), [](const PmixServer& s) { return !s.ready; });
    if (now_ms - pmix_.waiting_since_ms > kReadyLimitMs)
      pmix_lost(static_cast<int>(missing - pmix_.servers.begin()), "has not come within 30 s");
  }
  for (const auto& [rank, abort] : pmix_.aborts) {
    if (state_.ending() || attempt_.learners[static_cast<size_t>(rank)].ended || now_ms - abort.at_ms < kAbortLimitMs)
      continue;
    Failure failure;
    add_abort(rank, &failure);
    return learner_failed(rank, failure);
  }
}

// What PMIx knows of a learner's end.
void Supervisor::add_abort(int rank, Failure* failure) {
  if (const auto abort = pmix_.aborts.find(rank); abort != pmix_.aborts.end()) {
    if (failure->exception.empty()) failure->exception = fmt::format("MPI_Abort with code {}", abort->second.status);
    if (failure->kind == Failure::Kind::kExit && failure->exit == 0)
      failure->exit = (abort->second.status & 0xff) != 0 ? abort->second.status & 0xff : 1;
    return;
  }
  if (pmix_.servers.empty() || pmix_.came[static_cast<size_t>(rank)] || failure->kind != Failure::Kind::kExit ||
      !speaks_of_pmix(failure->last_lines))
    return;
  say(
      fmt::format("learner {} has not reached the PMIx server of its node ({}): it may be built with a PMIx that does "
                  "not understand this one; DL_PMIX=slurm takes Slurm's own instead",
                  rank, pmix_.version));
}

}  // namespace dl::supervise
