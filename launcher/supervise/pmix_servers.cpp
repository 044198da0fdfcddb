// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/pmix_servers.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int64_t kReadyLimitMs = 30000;  // for the servers to become ready, once all agents have connected
constexpr int64_t kAbortLimitMs = 2000;   // for a learner that has called MPI_Abort to end by itself
constexpr int kNoticeMs = 100;            // for learners to learn of a lost peer before they are asked to end

constexpr char kKilled[] = "was killed";

bool speaks_of_pmix(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const std::string_view begin = std::string_view(line).substr(0, 400);
    for (const std::string_view word : {"PMIX", "PMIx", "OPAL ERROR", "ompi_mpi_init", "MPI_Init"})
      if (begin.find(word) != std::string_view::npos) return true;
  }
  return false;
}

PmixServers::News said(std::string line) {
  PmixServers::News news;
  news.lines.push_back(std::move(line));
  return news;
}

}  // namespace

void PmixServers::open(const plan::LaunchPlan& plan, std::string space) {
  close();
  job_ = {};
  servers_.clear();
  places_.clear();
  exchange_ = {};
  version_.clear();
  came_.clear();
  aborts_.clear();
  waiting_since_ms_ = end_at_ms_ = 0;
  if (plan.pmix_server.empty()) return;
  job_.space = std::move(space);
  // A node that holds servers of a pool alone is none of the namespace's.
  std::vector<int> number(plan.nodes.size(), -1);
  for (const plan::PlannedLearner& learner : plan.learners)
    if (!plan.is_place(learner.rank)) number[static_cast<size_t>(learner.node)] = 0;
  for (size_t node = 0; node < plan.nodes.size(); ++node) {
    if (number[node] < 0) continue;
    number[node] = static_cast<int>(job_.nodes.size());
    job_.nodes.push_back(plan.nodes[node].name);
  }
  job_.ranks.resize(job_.nodes.size());
  for (const plan::PlannedLearner& learner : plan.learners) {
    if (plan.is_place(learner.rank)) continue;
    const int node = number[static_cast<size_t>(learner.node)];
    job_.ranks[static_cast<size_t>(node)].push_back(learner.rank);
    places_.push_back({node, learner.local_rank});
  }
  servers_.resize(job_.nodes.size());
  exchange_ = pmix::Exchange(job_.ranks);
  came_.assign(places_.size(), false);
}

void PmixServers::close() {
  for (Server& server : servers_) {
    if (server.connection != 0) connections_->close(server.connection);
    server.connection = 0;
  }
  node_of_.clear();
}

bool PmixServers::greet(ConnectionId id, int rank, bool sessions) {
  if (rank < 0 || static_cast<size_t>(rank) >= places_.size()) return false;
  const int node = places_[static_cast<size_t>(rank)].node;
  if (server(node).connection != 0) return false;
  server(node).connection = id;
  node_of_[id] = node;
  if (sessions) connections_->open_session(id);
  pmix::Job job = job_;
  job.node = node;
  connections_->send(id, Pmix{pmix::encode(job)});
  return true;
}

bool PmixServers::ready() const {
  return std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.ready; });
}

void PmixServers::add_environment(int rank, Start* start) const {
  if (static_cast<size_t>(rank) >= places_.size()) return;
  const Place& place = places_[static_cast<size_t>(rank)];
  const Server& server = servers_[static_cast<size_t>(place.node)];
  if (static_cast<size_t>(place.local_rank) < server.learners.size())
    for (const auto& [name, value] : server.learners[static_cast<size_t>(place.local_rank)])
      start->forced[name] = value;
}

void PmixServers::answer(const pmix::Exchange::Answers& answers) {
  for (const pmix::Exchange::Answer& answer : answers) {
    const ConnectionId id = server(answer.node).connection;
    if (id != 0) connections_->send(id, Pmix{pmix::encode(answer.message)});
  }
}

PmixServers::News PmixServers::heard(ConnectionId id, const std::string& body, const Now& now) {
  const int node = node_of_.at(id);
  auto message = pmix::decode(body);
  if (!message)
    return said(fmt::format("warning: dl-pmix on {}: {}", job_.nodes[static_cast<size_t>(node)], message.error().text));
  const auto own = [&](int rank) {
    const auto& ranks = job_.ranks[static_cast<size_t>(node)];
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  };
  if (auto* ready = std::get_if<pmix::Ready>(&*message)) {
    server(node).ready = true;
    server(node).learners = std::move(ready->learners);
    version_ = ready->version;
    return {};
  }
  if (const auto* failed = std::get_if<pmix::Failed>(&*message)) return lost(node, failed->text, now);
  if (const auto* client = std::get_if<pmix::Client>(&*message)) {
    if (!own(client->rank) || !client->connected) return {};
    came_[static_cast<size_t>(client->rank)] = true;
    if (std::exchange(said_, true)) return {};
    return said(fmt::format("learners are served by dl-pmix ({})", version_));
  }
  if (const auto* refused = std::get_if<pmix::Refused>(&*message))
    return said(
        fmt::format("learner {} may not {}: a job has the learners that it was started with; others in the same "
                    "call may wait for it without end",
                    refused->rank, refused->what));
  if (const auto* abort = std::get_if<pmix::Abort>(&*message); abort != nullptr && own(abort->rank))
    aborts_.emplace(abort->rank, Abort{abort->status, now.ms});
  answer(exchange_.handle(node, *message));
  return {};
}

PmixServers::News PmixServers::broken(ConnectionId id, const std::string& why, const Now& now) {
  const int node = node_of_.at(id);
  if (!connections_->has_session(id)) return is_silence(why) ? lost(node, "does not answer", now) : killed(node, now);
  server(node).broken = why;
  connections_->probe(id);
  return {};
}

void PmixServers::resumed(ConnectionId id) {
  if (const auto node = node_of_.find(id); node != node_of_.end()) server(node->second).broken.clear();
}

void PmixServers::let_go(int node) {
  Server& its = server(node);
  its.broken.clear();
  node_of_.erase(its.connection);
  if (its.connection != 0) connections_->close(its.connection);
  its.connection = 0;
}

PmixServers::News PmixServers::killed(int node, const Now& now) {
  const bool all_came =
      std::all_of(now.learners.begin(), now.learners.end(), [](const Learner& learner) { return learner.said_hello; });
  if (now.phase != Phase::kStarting || all_came) return lost(node, kKilled, now);
  let_go(node);
  server(node).ready = false;
  server(node).killed = true;
  return {};
}

// A server has ended or failed; learners that use it cannot go on without it.
PmixServers::News PmixServers::lost(int node, const std::string& why, const Now& now) {
  let_go(node);
  const std::string text =
      fmt::format("the PMIx server (dl-pmix) on {} {}", job_.nodes[static_cast<size_t>(node)], why);
  News news;
  if (now.phase == Phase::kStarting) {
    news.not_started = text;
    return news;
  }
  if (now.phase != Phase::kRunning && now.phase != Phase::kStopping) return news;
  // Nothing is lost if no running learner of the node has ever connected to the server: most programs that are started
  // as "generic" are no MPI programs.
  bool any_runs = false;
  for (const int rank : job_.ranks[static_cast<size_t>(node)]) {
    const bool runs = !now.learners[static_cast<size_t>(rank)].ended;
    any_runs = any_runs || runs;
    if (!runs || !came_[static_cast<size_t>(rank)]) continue;
    Failure failure;
    failure.kind = Failure::Kind::kAgentLost;
    failure.text = text;
    news.lost = {rank, failure};
    return news;
  }
  return any_runs ? said(fmt::format("warning: {}; no learner there has used it", text)) : news;
}

PmixServers::News PmixServers::tick(const Now& now, bool all_agents) {
  News news;
  for (size_t node = 0; node < servers_.size(); ++node) {
    const Server& its = servers_[node];
    if (its.broken.empty()) continue;
    connections_->read_beats();
    connections_->probe(its.connection);
    const Verdict verdict = connections_->verdict(its.connection);
    if (verdict == Verdict::kWait || verdict == Verdict::kWell) continue;
    const int its_node = static_cast<int>(node);
    return verdict == Verdict::kAgentKilled ? killed(its_node, now) : lost(its_node, "does not answer", now);
  }
  if (end_at_ms_ != 0 && now.ms >= end_at_ms_) {
    end_at_ms_ = 0;
    news.end_learners_ms = kFailureGraceMs - kNoticeMs;
    return news;
  }
  if (now.phase == Phase::kStarting && all_agents && !ready()) {
    const auto gone = std::find_if(servers_.begin(), servers_.end(), [](const Server& s) { return s.killed; });
    if (gone != servers_.end()) return lost(static_cast<int>(gone - servers_.begin()), kKilled, now);
    if (waiting_since_ms_ == 0) waiting_since_ms_ = now.ms;
    const auto missing = std::find_if(servers_.begin(), servers_.end(), [](const Server& s) { return !s.ready; });
    if (now.ms - waiting_since_ms_ > kReadyLimitMs)
      return lost(static_cast<int>(missing - servers_.begin()), "has not come within 30 s", now);
  }
  for (const auto& [rank, abort] : aborts_) {
    const bool ended = now.learners[static_cast<size_t>(rank)].ended;
    if (now.phase == Phase::kEnding || ended || now.ms - abort.at_ms < kAbortLimitMs) continue;
    Failure failure;
    explain(rank, &failure);
    news.lost = {rank, failure};
    return news;
  }
  return news;
}

bool PmixServers::tell_of_end(int rank, bool failed, int exit) {
  if (static_cast<size_t>(rank) >= places_.size()) return false;
  answer(exchange_.gone(rank, failed));
  if (!failed) return false;
  const std::string line = encode(Pmix{pmix::encode(pmix::Lost{rank, exit})});
  for (const Server& server : servers_)
    if (server.connection != 0) connections_->send_line(server.connection, line);
  return std::find(came_.begin(), came_.end(), true) != came_.end();
}

void PmixServers::end_after_notice(int64_t now_ms) {
  if (end_at_ms_ == 0) end_at_ms_ = now_ms + kNoticeMs;
}

std::string PmixServers::explain(int rank, Failure* failure) const {
  if (const auto abort = aborts_.find(rank); abort != aborts_.end()) {
    if (failure->exception.empty()) failure->exception = fmt::format("MPI_Abort with code {}", abort->second.status);
    if (failure->kind == Failure::Kind::kExit && failure->exit == 0)
      failure->exit = (abort->second.status & 0xff) != 0 ? abort->second.status & 0xff : 1;
    return {};
  }
  if (static_cast<size_t>(rank) >= places_.size() || came_[static_cast<size_t>(rank)] ||
      failure->kind != Failure::Kind::kExit || !speaks_of_pmix(failure->last_lines))
    return {};
  return fmt::format(
      "learner {} has not reached the PMIx server of its node ({}): it may be built with a PMIx that does not "
      "understand this one; DL_PMIX=slurm takes Slurm's own instead",
      rank, version_);
}

}  // namespace dl::supervise
