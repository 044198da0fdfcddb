// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/attempt.h"

#include <algorithm>

#include "common/contract/exit_codes.h"

namespace dl::supervise {

using namespace protocol;

namespace {

using record::JobState;

constexpr int64_t kServeOnMs = 1000;  // for learners that serve to end by themselves after all others have

// A dual-stack socket shows an IPv4 address as ::ffff:10.0.0.1.
std::string plain_address(const std::string& address) {
  return address.rfind("::ffff:", 0) == 0 ? address.substr(7) : address;
}

std::string first_port(const std::string& address, const std::vector<int>& ports) {
  return format_endpoint(plain_address(address), ports.empty() ? 0 : ports.front());
}

}  // namespace

Attempt::Attempt(const plan::LaunchPlan& plan, int64_t now_ms, int64_t now_unix_ms)
    : learners_(static_cast<size_t>(plan.world_size())),
      deciding_(static_cast<size_t>(plan.deciding())),
      nodes_(plan.nodes.size()),
      first_place_(static_cast<size_t>(plan.pool ? plan.learner_count() : plan.world_size())),
      started_ms_(now_ms),
      started_unix_ms_(now_unix_ms) {
  for (size_t rank = 0; rank < learners_.size(); ++rank)
    learners_[rank].host = plan.nodes[static_cast<size_t>(plan.learners[rank].node)].name;
  for (size_t place = first_place_; place < learners_.size(); ++place) learners_[place].in_reserve = true;
}

void Attempt::begin_again(const plan::LaunchPlan& plan, int64_t now_ms, int64_t now_unix_ms) {
  plan::RunFacts facts = std::move(facts_);
  *this = Attempt(plan, now_ms, now_unix_ms);
  facts_ = std::move(facts);
}

bool Attempt::awaits(const Hello& hello) const {
  return hello.role == "agent" && hello.rank >= 0 && static_cast<size_t>(hello.rank) < learners_.size() &&
         !learner(hello.rank).said_hello;
}

void Attempt::said_hello(int rank, const Hello& hello) {
  Learner& learner = at(rank);
  learner.said_hello = true;
  learner.host = hello.host;
  learner.address = hello.address;
  learner.port = hello.port;
  learner.coordinator_port = hello.coordinator_port;
  learner.ras_port = hello.ras_port;
  learner.ports = hello.ports;
  agents_have_pmi_ = agents_have_pmi_ || hello.pmi;
}

void Attempt::started(int rank, int pid) {
  Learner& learner = at(rank);
  learner.started = true;
  learner.pid = pid;
  learner.state = JobState::kProcessing;
}

void Attempt::blame_for_hang(int rank) {
  at(rank).hung = true;
}

void Attempt::end(int rank) {
  at(rank).ended = true;
}

void Attempt::end_well(int rank, int exit, bool stopped, int64_t now_ms) {
  Learner& learner = at(rank);
  learner.ended = true;
  learner.exit = exit;
  learner.state = stopped ? JobState::kHalted : JobState::kCompleted;
  if (serving_until_ms_ == 0 && !any_decides()) serving_until_ms_ = now_ms + kServeOnMs;
}

bool Attempt::end_serving(int64_t now_ms) {
  serving_over_ = serving_over_ || (serving_until_ms_ != 0 && now_ms >= serving_until_ms_);
  return serving_over_;
}

void Attempt::end_unheard() {
  for (Learner& learner : learners_) learner.ended = learner.ended || !learner.said_hello;
}

void Attempt::call_up(int rank) {
  at(rank).in_reserve = false;
}

void Attempt::to_reserve(int rank) {
  Learner& learner = at(rank);
  Learner waits;
  waits.host = learner.host;
  waits.in_reserve = true;
  learner = std::move(waits);
}

std::vector<int> Attempt::end_reserve() {
  std::vector<int> ranks;
  for (size_t place = first_place_; place < learners_.size(); ++place) {
    Learner& learner = learners_[place];
    if (!learner.in_reserve || learner.ended) continue;
    learner.ended = true;
    learner.state = JobState::kCompleted;
    ranks.push_back(static_cast<int>(place));
  }
  return ranks;
}

const Failure& Attempt::fail(int rank, Failure failure, int64_t now_ms) {
  Learner& learner = at(rank);
  failure.rank = rank;
  if (is_place(rank) && failure.server == -1) failure.server = rank - first_place();
  failure.host = nodes_ > 1 ? learner.host : "";
  failure.at_ms = now_ms;
  failure.step = learner.step;
  learner.state = failure.asked ? JobState::kHalted : JobState::kFailed;
  learner.exit = exit_status(failure);
  failures_.push_back(std::move(failure));
  return failures_.back();
}

Failure Attempt::give_up(int rank, const Failure& why, bool to_end) {
  Learner& learner = at(rank);
  const bool not_come = why.kind == Failure::Kind::kNoAgent;
  learner.ended = true;
  agent_lost_ = agent_lost_ || !not_come;
  Failure its = why;
  its.asked = to_end || (not_come && learner.said_hello);
  its.exit = kExitCannotStart;
  return its;
}

bool Attempt::is_over() {
  if (over_told_ || !all_ended()) return false;
  over_told_ = true;
  return true;
}

bool Attempt::any_decides() const {
  for (size_t rank = 0; rank < deciding_; ++rank)
    if (!learners_[rank].ended) return true;
  return false;
}

bool Attempt::deaf_are_left() const {
  for (size_t rank = 0; rank < deciding_; ++rank)
    if (!learners_[rank].ended && learners_[rank].ever_attached) return false;
  return any_decides();
}

void Attempt::lose_agent(int rank) {
  at(rank).ended = true;
  agent_lost_ = true;
}

void Attempt::silence_agent(int rank) {
  lose_agent(rank);
  agent_silent_ = true;
}

void Attempt::is_called(int attempt, int restarts, std::string run_id) {
  facts_.attempt = attempt;
  facts_.restarts = restarts;
  facts_.run_id = std::move(run_id);
}

void Attempt::meet(plan::RunFacts stores, bool peers) {
  facts_ = std::move(stores);
  const Learner& first = learners_[0];
  facts_.master_addr = plain_address(first.address);
  facts_.master_port = first.port;
  facts_.coordinator_port = first.coordinator_port;
  facts_.ras_port = first.ras_port;
  if (!peers) return;
  for (size_t rank = 0; rank < first_place_; ++rank)
    facts_.peers.push_back(first_port(learners_[rank].address, learners_[rank].ports));
}

bool Attempt::all_said_hello() {
  return all(&hello_below_, [](const Learner& l) { return l.said_hello; });
}
bool Attempt::all_started() {
  return all(&started_below_, [](const Learner& l) { return l.started || l.ended || l.in_reserve; });
}
bool Attempt::all_ended() {
  return all(&ended_below_, [](const Learner& l) { return l.ended; });
}

bool Attempt::all_run(int64_t now_ms) {
  if (running_since_ms_ != 0) return false;
  running_since_ms_ = last_save_ms_ = now_ms;
  return true;
}

bool Attempt::save_due(int64_t now_ms, int64_t every_ms) const {
  return running_since_ms_ != 0 && now_ms - last_save_ms_ >= every_ms;
}

double Attempt::running_s(int64_t now_ms) const {
  return running_since_ms_ == 0 ? 0 : static_cast<double>(now_ms - running_since_ms_) / 1000;
}

std::optional<int64_t> Attempt::progressed(int rank, const Progress& progress, int64_t now_ms) {
  Learner& learner = learners_[static_cast<size_t>(rank)];
  if (progress.step > learner.step && learner.step >= 0 && now_ms > learner.step_seen_ms) {
    const int64_t each = (now_ms - learner.step_seen_ms) / (progress.step - learner.step);
    step_ms_ = step_ms_ == 0 ? each : (3 * step_ms_ + each) / 4;
  }
  if (progress.step != learner.step) {
    learner.step_seen_ms = now_ms;
    learner.times.add(now_ms, progress.step);
  }
  learner.page_state = progress.state;
  learner.ever_attached = learner.ever_attached || progress.state != ProgressPage::kNotAttached;
  learner.step = progress.step;
  learner.save_ms = progress.save_ms;
  learner.local_ms = progress.local_ms;
  learner.cost_ms = progress.cost_ms;
  learner.noise = progress.noise;
  if (progress.saved_step <= learner.saved_step) return std::nullopt;
  learner.saved_step = progress.saved_step;
  last_save_ms_ = now_ms;
  return learner.saved_step;
}

void Attempt::stands_at(int rank, const StepReport& report) {
  Learner& learner = learners_[static_cast<size_t>(rank)];
  learner.page_state = report.state;
  learner.ever_attached = learner.ever_attached || report.attached;
  learner.step = std::max(learner.step, report.step);
}

SaveTimes Attempt::save_times() const {
  SaveTimes times;
  for (const Learner& learner : learners_) {
    times.save_ms = std::max(times.save_ms, learner.save_ms);
    times.local_ms = std::max(times.local_ms, learner.local_ms);
  }
  times.step_ms = static_cast<uint64_t>(std::max<int64_t>(step_ms_, 0));
  return times;
}

SaveCosts Attempt::save_costs() const {
  SaveCosts costs;
  for (const Learner& learner : learners_) {
    costs.cost_s = std::max(costs.cost_s, static_cast<double>(learner.cost_ms) / 1000);
    costs.durable_s = std::max(costs.durable_s, static_cast<double>(learner.save_ms) / 1000);
  }
  return costs;
}

int64_t Attempt::newest_saved_step() const {
  int64_t newest = -1;
  for (const Learner& learner : learners_) newest = std::max(newest, learner.saved_step);
  return newest;
}

PaceHint Attempt::pace(int64_t now_unix_s) const {
  PaceHint pace;
  for (const Learner& learner : learners_) pace.step = std::max(pace.step, learner.step);
  for (const Learner& learner : learners_) {
    const auto step_ms = learner.times.steady_ms();
    if (!step_ms || *step_ms <= 0) continue;
    pace.steps_per_s = 1000 / *step_ms;
    break;
  }
  pace.at_s = now_unix_s;
  return pace;
}

bool Attempt::any_attached() const {
  return std::any_of(learners_.begin(), learners_.end(), [](const Learner& learner) { return learner.ever_attached; });
}

}  // namespace dl::supervise
