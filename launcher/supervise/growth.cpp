// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/growth.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/base/awake_clock.h"
#include "common/base/clock.h"
#include "common/base/count.h"
#include "common/base/hostlist.h"
#include "launcher/supervise/may_grow.h"

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int64_t kEarlyPingMs = 500;

std::string size_of(const plan::LaunchPlan& plan) {
  std::vector<std::string> names;
  names.reserve(plan.nodes.size());
  for (const plan::PlannedNode& node : plan.nodes) names.push_back(node.name);
  return count_text(plan.world_size(), "learner") + " on " + compress_hostlist(names);
}

// "grew from 2 to 4 learners: nodes n[3-4] were free"
std::string grew_text(int before, const plan::LaunchPlan& plan, const std::string& companion) {
  std::vector<std::string> names;
  for (const plan::PlannedNode& node : plan.nodes)
    if (node.companion == companion) names.push_back(node.name);
  return fmt::format("grew from {} to {}: {} {} free", before, count_text(plan.learner_count(), "learner"),
                     (names.size() == 1 ? "node " : "nodes ") + compress_hostlist(names),
                     names.size() == 1 ? "was" : "were");
}

}  // namespace

std::string Growth::why_not(int nodes) const {
  const std::vector<std::string>& held = with_.companions->held();
  GrowthFacts facts;
  facts.nodes = nodes;
  facts.can_grow = plan().under_slurm && with_.nodes->can_grow();
  facts.asked = plan().asked;
  facts.learners = plan().learner_count();
  facts.servers = plan().servers;
  facts.saves = plan().checkpoint.has_value() && with_.attempt->any_attached();
  facts.companions = static_cast<int>(held.size());
  facts.one_is_new =
      with_.companions->submitting() ||
      std::any_of(held.begin(), held.end(), [this](const std::string& job) { return !with_.nodes->uses(job); });
  facts.trains = with_.state->phase == Phase::kRunning && with_.state->all_started && !with_.state->stop;
  return why_not_grow(facts);
}

void Growth::asked(ConnectionId asker, int nodes) {
  if (const std::string why = why_not(nodes); !why.empty())
    return with_.connections->send(asker, Reply{false, "job " + plan().job_id + " cannot have more nodes: " + why});
  with_.companions->submit(plan(), nodes, {}, [this, asker, nodes](const Result<std::string>& job) {
    if (!job) return with_.connections->send(asker, Reply{false, "no more nodes: " + job.error().text});
    const std::string text = fmt::format("companion {} is submitted for {}", *job, count_text(nodes, "more node"));
    with_.journal->note(text);
    with_.voice->say(text);
    with_.connections->send(asker, Reply{true, text + "; the learners go on there, too, once it runs"});
  });
}

void Growth::perform(const TakeOffer& take) {
  const int nodes = take.offer.nodes;
  if (run_ > 1) return;
  if (const std::string why = why_not(nodes); !why.empty())
    return with_.journal->note(
        fmt::format("{} that dlpolicyd offers cannot be used: {}", count_text(nodes, "node"), why));
  const OfferedNodes offered{with_.site->borrow.partition, with_.site->borrow.qos};
  with_.companions->submit(plan(), nodes, offered, [this, nodes](const Result<std::string>& job) {
    const std::string what = count_text(nodes, "free node");
    const std::string text = job ? fmt::format("companion {} is submitted for {}, as dlpolicyd offers", *job, what)
                                 : fmt::format("no companion for {}: {}", what, job.error().text);
    if (job) offered_ = *job;
    with_.journal->note(text);
    with_.voice->say(text);
  });
}

void Growth::heard(const std::string& job, const CompanionState& state) {
  if (with_.state->finished() || with_.state->phase == Phase::kPuttingBack) return;
  if (state.kind == CompanionState::Kind::kRuns) return runs(job, state.nodes);
  leaves(job, state);
}

// Called with each look at a companion that runs; its agents are started at the first that finds learners training.
void Growth::runs(const std::string& job, const std::vector<plan::Node>& nodes) {
  const bool train = with_.state->phase == Phase::kRunning && !with_.state->stop;
  if (with_.nodes->uses(job) || with_.nodes->larger() || !train) return;
  next_ = {};
  next_.job = job;
  next_.since_ms = awake_ms();
  Status ready = with_.nodes->plan_larger(nodes);
  if (ready) {
    auto endpoint = calls_.endpoint(nodes.front().name);
    if (endpoint)
      next_.endpoint = *std::move(endpoint);
    else
      ready = std::move(endpoint).error();
  }
  if (ready) {
    const plan::LaunchPlan& larger = *with_.nodes->larger();
    // Beside the agents and servers of this attempt.
    calls_.expect(static_cast<size_t>(plan().world_size() + larger.world_size()) + plan().nodes.size() +
                  larger.nodes.size());
    ready = with_.agents->start_early(larger, next_.endpoint, secret_);
  }
  if (!ready) drop(ready.error().text);
}

bool Growth::keeps(ConnectionId id, const Hello& hello) {
  if (!with_.nodes->larger() || hello.start != with_.agents->early_number() || hello.version != kProtocolVersion)
    return false;
  if (hello.role == "agent") {
    if (!hello.error.empty()) {
      drop(fmt::format("the PMIx server (dl-pmix) on {}: {}", hello.host, hello.error));
      return true;
    }
    ++next_.agents;
  }
  next_.early.emplace_back(id, hello);
  return true;
}

bool Growth::broken(ConnectionId id, const std::string& why) {
  const auto early =
      std::find_if(next_.early.begin(), next_.early.end(), [id](const auto& each) { return each.first == id; });
  if (early == next_.early.end()) return false;
  drop(fmt::format("its agent on {} has ended: {}", early->second.host, why));
  return true;
}

void Growth::look(int64_t now_ms) {
  with_.companions->look(now_ms);
  if (!with_.nodes->larger()) return;
  if (!with_.agents->early_run()) return drop("srun could not start its agents");
  const bool ready = next_.ready(*with_.nodes->larger());
  if (!ready && now_ms - next_.since_ms > 1000 * with_.site->agent_timeout.count())
    return drop("its agents have not connected");
  if (now_ms - next_.pinged_ms >= kEarlyPingMs) {
    next_.pinged_ms = now_ms;
    for (const auto& [id, unused] : next_.early) with_.connections->ping(id);
  }
  const RunState& state = *with_.state;
  if (!ready || state.phase != Phase::kRunning || !state.all_started || state.stop) return;
  calls_.stop({StopCause::kOtherNodes, {}, 0, fmt::format("companion {} runs", next_.job), 0});
}

void Growth::end() {
  for (const auto& [id, unused] : next_.early) with_.connections->close(id);
  next_ = {};
  with_.agents->drop_early();
  if (with_.nodes->larger()) with_.nodes->drop_larger();
  if (calls_.settle) calls_.settle(plan());
}

void Growth::drop(const std::string& why) {
  const std::string job = next_.job;
  with_.voice->say(fmt::format("companion {} is given back: {}", job, why));
  end();
  with_.companions->give_back(job);
}

// The companion stays, and is used once the learners train again (runs()).
void Growth::put_off(const std::string& why) {
  with_.voice->say(fmt::format("companion {} has to wait: {}", next_.job, why));
  end();
}

void Growth::attempt_ends() {
  if (!with_.nodes->larger()) return;
  if (with_.nodes->any_lost()) return put_off("the job has lost other nodes");
  if (!next_.ready(*with_.nodes->larger())) drop("the learners ended before its agents had come");
}

std::string Growth::take() {
  next_.before = plan().learner_count();
  with_.nodes->take_larger();
  if (calls_.settle) calls_.settle(plan());
  next_.taken = true;
  with_.attempt->dismiss_agents();  // they were started for a plan without the new nodes
  return next_.endpoint;
}

std::string Growth::size_text() const {
  std::string text = size_of(plan());
  if (next_.taken && next_.job == offered_) text += "; " + grew_text(next_.before, plan(), next_.job);
  return text;
}

std::vector<std::pair<ConnectionId, Hello>> Growth::adopt() {
  with_.agents->adopt();
  return std::exchange(next_, {}).early;
}

void Growth::not_begun() {
  if (next_.taken) end();
}

// Slurm ends a companion, or its owner claims it: the learners save, and go on without it.
void Growth::leaves(const std::string& job, const CompanionState& state) {
  if (job == next_.job) return drop(state.why);
  if (!with_.nodes->uses(job)) {
    with_.voice->say(fmt::format("companion {} is given up: {}", job, state.why));
    return with_.companions->give_back(job);
  }
  const bool news = !with_.nodes->any_lost_of(job);
  with_.nodes->lose_companion(job);
  const std::string who = fmt::format("companion {}: {}", job, state.why);
  // Where the learners stop already, for another companion perhaps, the deadline may be earlier now.
  const bool counts = !with_.state->stop || state.deadline_ms;
  if (news && counts && with_.state->alive()) calls_.stop({StopCause::kOtherNodes, state.deadline_ms, 0, who, 0});
  if (state.kind != CompanionState::Kind::kOver || !with_.state->alive()) return;
  // Nothing of it is left, so agents that have not connected yet never will.
  for (int rank = 0; rank < plan().world_size(); ++rank) {
    if (with_.attempt->learner(rank).ended || with_.nodes->companion_of(rank) != job) continue;
    with_.agents->let_go(rank);
    with_.attempt->lose_agent(rank);
    Failure failure;
    failure.kind = Failure::Kind::kAgentLost;
    failure.text = who;
    calls_.fail(rank, std::move(failure));
  }
  calls_.look_whether_over();
}

bool Growth::noticed(int rank, int signal) {
  const std::string job = with_.nodes->companion_of(rank);
  if (job.empty()) return false;
  with_.companions->look_soon();
  if (signal != SIGTERM) return true;
  CompanionState state;
  state.kind = CompanionState::Kind::kEnds;
  state.why = "Slurm ends it";
  state.deadline_ms = unix_ms() + with_.state->rules.kill_wait_s * 1000;
  leaves(job, state);
  return true;
}

void Growth::run_ends() {
  if (with_.nodes->larger()) drop("the job ends");
  with_.companions->give_back_all();
}

}  // namespace dl::supervise
