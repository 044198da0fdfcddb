// SPDX-License-Identifier: Apache-2.0
// Agents that are not heard: what the two ways tell of them (two_ways.h), and connections that are taken up again.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "common/base/parse.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {
namespace {

constexpr int64_t kSuspiciousMs = 1000;  // pings come each half second
constexpr int64_t kLookMs = 200;         // how often suspects are looked for, and asked
constexpr int64_t kProbeMs = 100;        // how often those are asked whose connection is broken
constexpr int kQuickProbes = 4;          // before that: an agent's kernel may not be done with its end yet
constexpr uint64_t kQuickProbeMs = 4;

}  // namespace

// A connection is gone, whether or not it may come again.
void Supervisor::on_broken(ConnectionId id, const std::string& why) {
  if (pmix_->knows(id)) return follow(pmix_->broken(id, why, now_for_pmix()));
  const auto found = attempt_.rank_of.find(id);
  if (found == attempt_.rank_of.end()) return;
  const int rank = found->second;
  Learner& learner = attempt_.learners[static_cast<size_t>(rank)];
  if (learner.ended) {
    server_->close(id);
    learner.connection = 0;
    return;
  }
  if (!server_->has_session(id)) {
    // One way only. The kernel of a killed agent closes its connection; a lost node says nothing at all.
    return lose_agent(rank, is_silence(why) ? Verdict::kNodeLost : Verdict::kAgentKilled, why);
  }
  attempt_.broken[rank] = {awake_ms(), why};
  server_->probe(id);
  look_at_way(rank);
  if (attempt_.broken.count(rank) > 0) probe_quickly(rank, id);
}

void Supervisor::probe_quickly(int rank, ConnectionId id) {
  poll(kQuickProbeMs, [this, rank, id, left = kQuickProbes + 1]() mutable {
    auto found = attempt_.rank_of.find(id);
    if (state_.finished() || found == attempt_.rank_of.end() || attempt_.broken.count(rank) == 0 || --left < 0)
      return true;
    if (left < kQuickProbes) server_->probe(id);
    return false;
  });
}

// One whose connection is broken: is it to be waited for?
void Supervisor::look_at_way(int rank) {
  const auto found = attempt_.broken.find(rank);
  if (found == attempt_.broken.end()) return;
  const Learner& learner = attempt_.learners[static_cast<size_t>(rank)];
  Verdict verdict = server_->verdict(learner.connection);
  // Nobody waits for one that is to end: if it lives, it ends its learner when it finds itself given up.
  if (state_.ending() && verdict == Verdict::kWait) verdict = Verdict::kAgentKilled;
  if (verdict == Verdict::kWait || verdict == Verdict::kWell) return;
  const std::string why = found->second.why;  // which goes with the entry
  lose_agent(rank, verdict, why);
}

void Supervisor::look_at_ways(int64_t now_ms) {
  if (!attempt_.broken.empty()) {
    server_->read_beats();
    const bool ask = now_ms - last_probe_ms_ >= kProbeMs;
    if (ask) last_probe_ms_ = now_ms;
    std::vector<int> ranks;
    for (const auto& [rank, unused] : attempt_.broken) ranks.push_back(rank);
    for (const int rank : ranks) {
      if (attempt_.broken.count(rank) == 0) continue;  // also where an earlier one's loss has begun another attempt
      if (ask) server_->probe(attempt_.learners[static_cast<size_t>(rank)].connection);
      look_at_way(rank);
    }
  }
  if (now_ms - last_suspicion_ms_ < kLookMs) return;
  last_suspicion_ms_ = now_ms;
  for (const Learner& learner : attempt_.learners)
    if (learner.connection != 0 && !learner.ended && now_ms - learner.heard_ms > kSuspiciousMs &&
        server_->has_session(learner.connection) && server_->connected(learner.connection) &&
        server_->unacknowledged(learner.connection))
      server_->probe(learner.connection);
}

void Supervisor::on_resumed(ConnectionId id) {
  pmix_->resumed(id);
  const auto found = attempt_.rank_of.find(id);
  if (found == attempt_.rank_of.end()) return;
  const int rank = found->second;
  Learner& learner = attempt_.learners[static_cast<size_t>(rank)];
  BrokenWay broken{awake_ms(), "reset on its side"};
  if (auto known = attempt_.broken.find(rank); known != attempt_.broken.end()) broken = known->second;
  attempt_.broken.erase(rank);
  learner.heard_ms = awake_ms();
  const std::string text = fmt::format("the connection to its agent was broken ({}) and taken up again after {} ms",
                                       broken.why, awake_ms() - broken.since_ms);
  journal_->learner(rank, learner.state, learner.host, text);
  say(fmt::format("learner {} on {}: {}", rank, learner.host, text));
}

// It is not waited for any more.
void Supervisor::lose_agent(int rank, Verdict verdict, const std::string& why) {
  Learner& learner = attempt_.learners[static_cast<size_t>(rank)];
  const int64_t now = awake_ms(), answered = server_->answered_ms(learner.connection);
  const bool unsure = !state_.ending() && server_->udp(learner.connection) == Udp::kSilent;
  attempt_.broken.erase(rank);
  server_->close(learner.connection);  // from now on its session is not taken up again, and no datagram answered
  learner.connection = 0;
  learner.ended = true;
  attempt_.agent_lost = true;
  Failure failure;
  failure.kind = Failure::Kind::kAgentLost;
  failure.asked = state_.ending();
  failure.text = fmt::format("its agent (dl-agent) on {} was killed", learner.host);
  if (verdict == Verdict::kNodeLost) failure.text = fmt::format("node {} does not answer ({})", learner.host, why);
  if (verdict == Verdict::kWayBroken)
    failure.text = fmt::format("its agent on {} answers, but could not connect again within {} ({})", learner.host,
                               format_duration(std::chrono::seconds(kWayLimitMs / 1000)), why);
  if (verdict != Verdict::kAgentKilled) {
    nodes_.lose(rank);
    raise_fence(fence_until_ms(now, answered));
  }
  // It may live, cut off from us by now, so that the sweep does not reach it either.
  if (unsure) raise_fence(fence_until_ms(now, answered));
  learner_failed(rank, failure);
  check_attempt_over();
}

}  // namespace dl::supervise
