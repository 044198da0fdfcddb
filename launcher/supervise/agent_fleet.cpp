// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/agent_fleet.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/base/parse.h"
#include "launcher/slurm_cli/refused_step.h"

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int64_t kPingMs = 500;
constexpr int64_t kSuspiciousMs = 1000;        // without a message; agents ping each half second
constexpr int64_t kSilenceLookMs = 200;        // how often silent agents are looked for and asked by UDP
constexpr int64_t kProbeMs = 100;              // how often an agent whose connection is broken is asked by UDP
constexpr int64_t kWakeLimitMs = 5000;         // for reused agents to say hello again; after that, new ones are started
constexpr int64_t kLauncherPatienceMs = 1000;  // after the launcher (srun) has ended, for messages still under way

}  // namespace

Failure failure_of(const AgentLoss& loss, const std::string& host) {
  Failure failure;
  failure.kind = Failure::Kind::kAgentLost;
  failure.asked = loss.asked;
  failure.text = fmt::format("its agent (dl-agent) on {} was killed", host);
  if (loss.verdict == Verdict::kNodeLost) failure.text = fmt::format("node {} does not answer ({})", host, loss.why);
  if (loss.verdict == Verdict::kWayBroken)
    failure.text = fmt::format("its agent on {} answers, but could not connect again within {} ({})", host,
                               format_duration(std::chrono::seconds(kWayLimitMs / 1000)), loss.why);
  return failure;
}

Failure failure_of_all(bool all_came, std::string text) {
  Failure failure;
  failure.kind = all_came ? Failure::Kind::kAgentLost : Failure::Kind::kNotStarted;
  failure.text = std::move(text);
  return failure;
}

bool AgentFleet::begin(size_t learners, bool may_stay, int64_t now_ms) {
  woken_ = may_stay && launcher_.running() && !agents_.empty() &&
           std::all_of(agents_.begin(), agents_.end(),
                       [this](const Agent& a) { return a.connection != 0 && connections_->connected(a.connection); });
  for (const Agent& agent : agents_) {
    if (agent.connection == 0) continue;
    if (woken_) connections_->send(agent.connection, Again{});
    connections_->close(agent.connection);
  }
  agents_.assign(learners, {});
  rank_of_.clear();
  broken_.clear();
  kept_.clear();
  refused_ = 0;
  start_again_ms_ = 0;
  since_ms_ = now_ms;
  came_ = 0;
  all_came_ = false;
  return woken_;
}

void AgentFleet::begin_again(int64_t now_ms) {
  const int refused = refused_;
  begin(agents_.size(), /*may_stay=*/false, now_ms);
  refused_ = refused;
}

AgentFleet::News AgentFleet::look(const RunState& state, int64_t now_ms) {
  News news;
  if (woken_ && (!launcher_.running() || now_ms - since_ms_ > kWakeLimitMs)) {
    news.start_again = true;
  } else if (state.may_greet() && !all_came_ && now_ms - since_ms_ > 1000 * patience_.count()) {
    news.give_up.emplace();
    news.give_up->kind = Failure::Kind::kNoAgent;
    news.give_up->text = fmt::format("its agent has not connected within {}", format_duration(patience_));
  } else if (launcher_is_gone(now_ms) && !(was_refused(state) && tries_again(now_ms, &news))) {
    const bool all_came = came_ == agents_.size();
    const std::string when = all_came ? "while learners were running" : "before it had started the learners";
    news.give_up = failure_of_all(all_came, launcher_name(plan_) + " ended " + when);
  }
  return news;
}

// After a refusal: whether the agents will be started again. False: they were too often.
bool AgentFleet::tries_again(int64_t now_ms, News* news) {
  if (start_again_ms_ == 0) {
    const auto pause = slurm_cli::pause_after_refusal(++refused_);
    if (!pause) return false;
    start_again_ms_ = now_ms + 1000 * pause->count();
    news->line = fmt::format("{} could not start the agents (see its error above); trying again in {} (try {} of {})",
                             launcher_name(plan_), format_duration(*pause), refused_, slurm_cli::max_tries_again());
  }
  news->start_again = now_ms >= start_again_ms_;
  return true;
}

// Whether srun's end means that Slurm may have refused to start the agents, as it does for a moment after a
// reconfigure, or that srun could not start all of them. No learner has begun: for that all agents have to come first.
bool AgentFleet::was_refused(const RunState& state) const {
  if (came_ == agents_.size() || state.phase != Phase::kStarting || plan_.method != plan::LaunchMethod::kSrun ||
      !WIFEXITED(launcher_status_))
    return false;
  const int status = WEXITSTATUS(launcher_status_);
  return slurm_cli::may_be_refused(status) || slurm_cli::may_not_have_reached(status);
}

Status AgentFleet::start(const std::string& endpoint, const std::string& secret) {
  launcher_gone_ms_ = 0;
  descriptors_.reset();
  Status started = launcher_.start(endpoint, secret);
  descriptors_.emplace();
  return started;
}

Status AgentFleet::start_early(const plan::LaunchPlan& plan, const std::string& endpoint, const std::string& secret) {
  descriptors_.reset();
  Status started = launcher_.start_early(plan, endpoint, secret);
  descriptors_.emplace();
  return started;
}

void AgentFleet::adopt() {
  launcher_gone_ms_ = 0;
  launcher_.adopt();
}

void AgentFleet::reap(int64_t now_ms) {
  for (const AgentLauncher::Ended& ended : launcher_.reap()) launcher_status_ = ended.wait_status;
  if (launcher_.running())
    launcher_gone_ms_ = 0;
  else if (launcher_gone_ms_ == 0)
    launcher_gone_ms_ = now_ms;
}

// Whether what starts the agents has ended so long ago that they have ended, too, or were never started.
bool AgentFleet::launcher_is_gone(int64_t now_ms) const {
  return !launcher_.running() && launcher_gone_ms_ != 0 && now_ms - launcher_gone_ms_ > kLauncherPatienceMs;
}

void AgentFleet::greet(ConnectionId id, int rank, bool sessions, int64_t now_ms) {
  if (!agent(rank).anew && ++came_ == agents_.size()) woken_ = false;
  agent(rank) = {id, now_ms, false};
  rank_of_[id] = rank;
  if (sessions) connections_->open_session(id);
}

std::optional<int> AgentFleet::rank_of(ConnectionId id) const {
  const auto found = rank_of_.find(id);
  if (found == rank_of_.end()) return std::nullopt;
  return found->second;
}

void AgentFleet::tell_all(const std::string& line, const Learners& learners) {
  for (size_t rank = 0; rank < agents_.size(); ++rank)
    if (!learners[rank].ended && agents_[rank].connection != 0) connections_->send_line(agents_[rank].connection, line);
}

int AgentFleet::tell_each_host(const std::string& line, const Learners& learners) {
  std::set<std::string> told;
  for (size_t rank = 0; rank < learners.size(); ++rank)
    if (agents_[rank].connection != 0 && told.insert(learners[rank].host).second)
      connections_->send_line(agents_[rank].connection, line);
  return static_cast<int>(told.size());
}

void AgentFleet::begin_anew(int rank) {
  tell(rank, Again{});
  let_go(rank);
  agent(rank).anew = true;
}

void AgentFleet::let_go(int rank) {
  Agent& its = agent(rank);
  if (its.connection == 0) return;
  connections_->close(its.connection);
  rank_of_.erase(its.connection);
  broken_.erase(rank);
  its.connection = 0;
}

void AgentFleet::tick(int64_t now_ms, const Learners& learners) {
  if (now_ms - last_ping_ms_ >= kPingMs) {
    last_ping_ms_ = now_ms;
    for (const Agent& agent : agents_)
      if (agent.connection != 0) connections_->ping(agent.connection);
  }
  if (now_ms - last_suspicion_ms_ < kSilenceLookMs) return;
  last_suspicion_ms_ = now_ms;
  for (size_t rank = 0; rank < agents_.size(); ++rank) {
    const Agent& agent = agents_[rank];
    if (agent.connection != 0 && !learners[rank].ended && now_ms - agent.heard_ms > kSuspiciousMs &&
        connections_->has_session(agent.connection) && connections_->connected(agent.connection) &&
        connections_->unacknowledged(agent.connection))
      connections_->probe(agent.connection);
  }
}

std::optional<AgentLoss> AgentFleet::broken(ConnectionId id, const std::string& why, bool ending, int64_t now_ms,
                                            const Learners& learners) {
  const auto rank = rank_of(id);
  if (!rank) return std::nullopt;
  if (learners[static_cast<size_t>(*rank)].ended) {
    let_go(*rank);
    return std::nullopt;
  }
  // Without a session there are no heartbeats, so only the error of the connection can tell: the kernel of a killed
  // agent closes the connection, and a lost node sends nothing at all.
  if (!connections_->has_session(id))
    return lose(*rank, is_silence(why) ? Verdict::kNodeLost : Verdict::kAgentKilled, why, ending, now_ms);
  broken_[*rank] = {now_ms, why};
  connections_->probe(id);
  return judge(*rank, ending, now_ms);
}

std::optional<AgentLoss> AgentFleet::judge(int rank, bool ending, int64_t now_ms) {
  const auto found = broken_.find(rank);
  if (found == broken_.end()) return std::nullopt;
  Verdict verdict = connections_->verdict(agent(rank).connection);
  // An agent that is to end anyway is not waited for: if it lives, it finds its session given up and ends its learner.
  if (ending && verdict == Verdict::kWait) verdict = Verdict::kAgentKilled;
  if (verdict == Verdict::kWait || verdict == Verdict::kWell) return std::nullopt;
  return lose(rank, verdict, found->second.why, ending, now_ms);
}

std::optional<AgentLoss> AgentFleet::lose(int rank, Verdict verdict, const std::string& why, bool ending,
                                          int64_t now_ms) {
  const ConnectionId id = agent(rank).connection;
  AgentLoss loss{rank, verdict, why, {}, ending};
  const bool unsure = !ending && connections_->udp(id) == Udp::kSilent;
  if (loss.takes_node() || unsure) loss.fence_until_ms = fence_until_ms(now_ms, connections_->answered_ms(id));
  let_go(rank);
  const bool starting = !ending && !woken_ && came_ < agents_.size() && plan_.method == plan::LaunchMethod::kSrun;
  if (!starting || loss.takes_node()) return loss;
  kept_.push_back(std::move(loss));
  return std::nullopt;
}

std::vector<AgentLoss> AgentFleet::losses_kept(bool ending) {
  if (!ending && came_ < agents_.size()) return {};
  for (AgentLoss& loss : kept_) loss.asked = ending;
  return std::exchange(kept_, {});
}

std::vector<int> AgentFleet::look_at_broken(int64_t now_ms) {
  if (broken_.empty()) return {};
  connections_->read_beats();
  const bool ask = now_ms - last_probe_ms_ >= kProbeMs;
  if (ask) last_probe_ms_ = now_ms;
  std::vector<int> ranks;
  for (const auto& [rank, unused] : broken_) {
    ranks.push_back(rank);
    if (ask) connections_->probe(agent(rank).connection);
  }
  return ranks;
}

bool AgentFleet::ask_again(ConnectionId id) {
  const auto rank = rank_of(id);
  if (!rank || broken_.count(*rank) == 0) return false;
  connections_->probe(id);
  return true;
}

std::optional<AgentFleet::Resumed> AgentFleet::resumed(ConnectionId id, int64_t now_ms) {
  const auto rank = rank_of(id);
  if (!rank) return std::nullopt;
  Broken before{now_ms, "reset on its side"};
  if (auto known = broken_.find(*rank); known != broken_.end()) before = known->second;
  broken_.erase(*rank);
  agent(*rank).heard_ms = now_ms;
  return Resumed{*rank, fmt::format("the connection to its agent was broken ({}) and taken up again after {} ms",
                                    before.why, now_ms - before.since_ms)};
}

std::vector<int> AgentFleet::silent(int64_t now_ms, int64_t limit_ms, const Learners& learners) const {
  std::vector<int> ranks;
  if (silence_open_) return ranks;
  for (size_t rank = 0; rank < agents_.size(); ++rank)
    if (!learners[rank].ended && agents_[rank].connection != 0 && now_ms - agents_[rank].heard_ms > limit_ms)
      ranks.push_back(static_cast<int>(rank));
  return ranks;
}

void AgentFleet::silence_is_known(bool suspended, int64_t now_ms) {
  silence_open_ = false;
  if (!suspended) return;
  for (Agent& agent : agents_) agent.heard_ms = now_ms;
}

}  // namespace dl::supervise
