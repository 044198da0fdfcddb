// SPDX-License-Identifier: Apache-2.0
// The run goes on with the nodes of a companion (companions.h), and without them when it ends. The agents of the larger
// attempt are started, and come, while the learners still train; then these save and start again at the new size.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/base/count.h"
#include "common/base/hostlist.h"
#include "launcher/supervise/may_grow.h"
#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int64_t kPingMs = 500;

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

std::string Supervisor::why_not_grow(int nodes) const {
  const std::vector<std::string>& held = companions_->held();
  GrowthFacts facts;
  facts.nodes = nodes;
  facts.can_grow = plan().under_slurm && nodes_.can_grow();
  facts.asked = plan().asked;
  facts.learners = plan().learner_count();
  facts.servers = plan().servers;
  facts.saves = plan().checkpoint.has_value() && attempt_.any_attached();
  facts.companions = static_cast<int>(held.size());
  facts.one_is_new = companions_->submitting() || std::any_of(held.begin(), held.end(), [this](const std::string& job) {
                       return !nodes_.uses(job);
                     });
  facts.trains = state_.phase == Phase::kRunning && state_.all_started && !state_.stop;
  return supervise::why_not_grow(facts);
}

void Supervisor::on_grow(ConnectionId id, int nodes) {
  if (const std::string why = why_not_grow(nodes); !why.empty())
    return server_->send(id, Reply{false, "job " + plan().job_id + " cannot have more nodes: " + why});
  companions_->submit(plan(), nodes, [this, id, nodes](const Result<std::string>& job) {
    if (!job) return server_->send(id, Reply{false, "no more nodes: " + job.error().text});
    const std::string text = fmt::format("companion {} is submitted for {}", *job, count_text(nodes, "more node"));
    journal_->note(text);
    voice_.say(text);
    server_->send(id, Reply{true, text + "; the learners go on there, too, once it runs"});
  });
}

// dlpolicyd has seen free nodes. All runs of the job hear of them, and the first one takes them.
void Supervisor::perform(const TakeOffer& take) {
  const int nodes = take.offer.nodes;
  if (options_.run > 1) return;
  if (const std::string why = why_not_grow(nodes); !why.empty())
    return journal_->note(fmt::format("{} that dlpolicyd offers cannot be used: {}", count_text(nodes, "node"), why));
  const OfferedNodes offered{site_.borrow.partition, site_.borrow.qos};
  companions_->submit(
      plan(), nodes,
      [this, nodes](const Result<std::string>& job) {
        const std::string what = count_text(nodes, "free node");
        const std::string text = job ? fmt::format("companion {} is submitted for {}, as dlpolicyd offers", *job, what)
                                     : fmt::format("no companion for {}: {}", what, job.error().text);
        if (job) offered_ = *job;
        journal_->note(text);
        voice_.say(text);
      },
      offered);
}

void Supervisor::companion_heard(const std::string& job, const CompanionState& state) {
  using Kind = CompanionState::Kind;
  if (state_.finished() || state_.phase == Phase::kPuttingBack) return;
  if (state.kind == Kind::kRuns) return companion_runs(job, state.nodes);
  companion_leaves(job, state);
}

// Called with each look at a companion that runs; its agents are started at the first that finds learners training.
void Supervisor::companion_runs(const std::string& job, const std::vector<plan::Node>& nodes) {
  if (nodes_.uses(job) || nodes_.larger() || state_.phase != Phase::kRunning || state_.stop) return;
  growth_ = {};
  growth_.job = job;
  set_pace();
  growth_.since_ms = awake_ms();
  growth_.endpoint = endpoint_;
  Status ready = nodes_.plan_larger(nodes);
  if (ready && endpoint_.rfind("127.", 0) == 0) {
    auto host = address_towards(nodes.front().name);
    if (host) growth_.endpoint = format_endpoint(*host, server_->port());
    if (!host) ready = std::move(host).error();
  }
  if (ready) {
    // Beside the agents and servers of this attempt.
    server_->expect(static_cast<size_t>(plan().world_size() + nodes_.larger()->world_size()) + plan().nodes.size() +
                    nodes_.larger()->nodes.size());
    ready = agents_->start_early(*nodes_.larger(), growth_.endpoint, secret_);
  }
  if (!ready) drop_growth(ready.error().text);
}

// The agents of the larger attempt are not those that are awaited now. True: the connection is theirs, and is kept.
bool Supervisor::keep_early_hello(ConnectionId id, const Hello& hello) {
  if (!nodes_.larger() || hello.start != agents_->early_number() || hello.version != kProtocolVersion) return false;
  if (hello.role == "agent") {
    if (!hello.error.empty()) {
      drop_growth(fmt::format("the PMIx server (dl-pmix) on {}: {}", hello.host, hello.error));
      return true;
    }
    ++growth_.agents;
  }
  growth_.early.emplace_back(id, hello);
  return true;
}

void Supervisor::look_at_growth(int64_t now_ms) {
  companions_->look(now_ms);
  if (!nodes_.larger()) return;
  if (!agents_->early_run()) return drop_growth("srun could not start its agents");
  const bool ready = growth_.ready(*nodes_.larger());
  if (!ready && now_ms - growth_.since_ms > 1000 * site_.agent_timeout.count())
    return drop_growth("its agents have not connected");
  if (now_ms - growth_.pinged_ms >= kPingMs) {
    growth_.pinged_ms = now_ms;
    for (const auto& [id, unused] : growth_.early) server_->ping(id);
  }
  if (!ready || state_.phase != Phase::kRunning || !state_.all_started || state_.stop) return;
  const std::string who = fmt::format("companion {} runs", growth_.job);
  handle(StopAsked{StopCause::kOtherNodes, {}, 0, who, 0});
}

void Supervisor::end_growth() {
  for (const auto& [id, unused] : growth_.early) server_->close(id);
  growth_ = {};
  agents_->drop_early();
  if (nodes_.larger()) nodes_.drop_larger();
  if (options_.settle) options_.settle(plan());
}

void Supervisor::drop_growth(const std::string& why) {
  const std::string job = growth_.job;
  voice_.say(fmt::format("companion {} is given back: {}", job, why));
  end_growth();
  companions_->give_back(job);
}

// The companion stays, and is used once the learners train again (companion_runs()).
void Supervisor::put_growth_off(const std::string& why) {
  voice_.say(fmt::format("companion {} has to wait: {}", growth_.job, why));
  end_growth();
}

// An attempt has ended. Its successor is the larger one only if that one's agents have come, and no node was lost.
void Supervisor::settle_growth() {
  if (!nodes_.larger()) return;
  if (nodes_.any_lost()) return put_growth_off("the job has lost other nodes");
  if (!growth_.ready(*nodes_.larger())) drop_growth("the learners ended before its agents had come");
}

void Supervisor::take_growth() {
  growth_.before = plan().learner_count();
  nodes_.take_larger();
  if (options_.settle) options_.settle(plan());
  endpoint_ = growth_.endpoint;
  growth_.taken = true;
  attempt_.dismiss_agents();
}

void Supervisor::go_on_with_more() {
  journal_->change_memory([](record::RunMemory* memory) { ++memory->moved; });
  std::string text = judge_->decision().reason + "; " + size_of(plan());
  if (growth_.taken && growth_.job == offered_) text += "; " + grew_text(growth_.before, plan(), growth_.job);
  voice_.say(text);
  start_attempt("restart at another size: " + text);
}

void Supervisor::greet_early() {
  agents_->adopt();
  const Growth growth = std::exchange(growth_, {});
  for (const auto& [id, hello] : growth.early) on_hello(id, hello);
}

// Slurm ends a companion, or its owner claims it: the learners save, and go on without it.
void Supervisor::companion_leaves(const std::string& job, const CompanionState& state) {
  if (job == growth_.job) return drop_growth(state.why);
  if (!nodes_.uses(job)) {
    voice_.say(fmt::format("companion {} is given up: {}", job, state.why));
    return companions_->give_back(job);
  }
  const bool news = !nodes_.any_lost_of(job);
  nodes_.lose_companion(job);
  const std::string who = fmt::format("companion {}: {}", job, state.why);
  // Where the learners stop already, for another companion perhaps, the deadline may be earlier now.
  const bool counts = !state_.stop || state.deadline_ms;
  if (news && counts && state_.alive()) handle(StopAsked{StopCause::kOtherNodes, state.deadline_ms, 0, who, 0});
  if (state.kind != CompanionState::Kind::kOver || !state_.alive()) return;
  // Nothing of it is left, so agents that have not connected yet never will.
  for (int rank = 0; rank < plan().world_size(); ++rank) {
    if (attempt_.learner(rank).ended || nodes_.companion_of(rank) != job) continue;
    agents_->let_go(rank);
    attempt_.lose_agent(rank);
    Failure failure;
    failure.kind = Failure::Kind::kAgentLost;
    failure.text = who;
    learner_failed(rank, std::move(failure));
  }
  check_attempt_over();
}

// An agent of a companion has received this signal, which therefore is not about the job itself. False: it is of none.
bool Supervisor::companion_notice(int rank, int signal) {
  const std::string job = nodes_.companion_of(rank);
  if (job.empty()) return false;
  companions_->look_soon();
  if (signal != SIGTERM) return true;
  CompanionState state;
  state.kind = CompanionState::Kind::kEnds;
  state.why = "Slurm ends it";
  state.deadline_ms = unix_ms() + state_.rules.kill_wait_s * 1000;
  companion_leaves(job, state);
  return true;
}

void Supervisor::give_companions_back() {
  if (nodes_.larger()) drop_growth("the job ends");
  companions_->give_back_all();
}

}  // namespace dl::supervise
