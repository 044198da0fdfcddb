// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/node_pool.h"

#include <algorithm>
#include <utility>

#include "launcher/supervise/attempt.h"

namespace dl::supervise {
namespace {

// Longer than any fence that dlrun sets. A clock that differs, or was set in between, cannot make a fence longer than
// this.
constexpr int64_t kMostFenceMs = 5000;

}  // namespace

std::vector<std::string> NodePool::names() const {
  std::vector<std::string> names;
  names.reserve(plan_.nodes.size());
  for (const plan::PlannedNode& node : plan_.nodes) names.push_back(node.name);
  return names;
}

const std::string& NodePool::name_of(int rank) const {
  return plan_.nodes[static_cast<size_t>(plan_.learners[static_cast<size_t>(rank)].node)].name;
}

void NodePool::drop_launcher_store() {
  no_launcher_store_ = true;
  take(std::move(plan_));
}

void NodePool::use_store_without_libuv() {
  no_libuv_ = true;
  drop_launcher_store();
}

std::string NodePool::store_host() const {
  if (no_libuv_) return record::kStoreWithoutLibuv;
  return no_launcher_store_ ? record::kStoreOfLearner0 : "";
}

void NodePool::take(plan::LaunchPlan plan) {
  plan_ = std::move(plan);
  if (no_launcher_store_) plan_.launcher_store = false;
  if (no_libuv_) plan_.framework_environment["USE_LIBUV"] = "0";
}

void NodePool::lose(int rank) {
  const std::string companion = companion_of(rank);
  if (!companion.empty()) return lose_companion(companion);
  lost_.insert(name_of(rank));
}

void NodePool::lose_companion(const std::string& job) {
  for (const plan::PlannedNode& node : plan_.nodes)
    if (node.companion == job) lost_.insert(node.name);
}

bool NodePool::any_own_lost() const {
  return std::any_of(plan_.nodes.begin(), plan_.nodes.end(), [this](const plan::PlannedNode& node) {
    return node.companion.empty() && lost_.count(node.name) > 0;
  });
}

bool NodePool::any_lost_of(const std::string& companion) const {
  return std::any_of(plan_.nodes.begin(), plan_.nodes.end(), [&](const plan::PlannedNode& node) {
    return node.companion == companion && lost_.count(node.name) > 0;
  });
}

std::string NodePool::companion_of(int rank) const {
  return plan_.nodes[static_cast<size_t>(plan_.learners[static_cast<size_t>(rank)].node)].companion;
}

bool NodePool::uses(const std::string& companion) const {
  return std::any_of(plan_.nodes.begin(), plan_.nodes.end(),
                     [&](const plan::PlannedNode& node) { return node.companion == companion; });
}

Status NodePool::plan_larger(const std::vector<plan::Node>& nodes) {
  if (!with_) return Error{Errc::kConflict, "the run cannot have more nodes"};
  DL_TRY_ASSIGN(larger_, with_(nodes, plan_));
  return {};
}

void NodePool::take_larger() {
  take(*std::exchange(larger_, std::nullopt));
}

void NodePool::drop_larger() {
  std::vector<std::string> names;
  for (const plan::PlannedNode& node : larger_->nodes)
    if (!node.companion.empty() && !uses(node.companion)) names.push_back(node.name);
  larger_.reset();
  // The plan that comes of it is the current one.
  if (without_) ignore(without_(names, plan_), "the nodes are left out all the same");
}

bool NodePool::raise_fence(int64_t until_ms) {
  if (until_ms <= fence_until_ms_) return false;
  fence_until_ms_ = until_ms;
  return true;
}

std::vector<std::string> NodePool::missing() const {
  std::set<std::string> names = lost_;
  names.insert(bad_.begin(), bad_.end());
  return {names.begin(), names.end()};
}

bool NodePool::rest_suffices() {
  rest_.reset();
  if (!without_ || !plan_.under_slurm) return false;
  auto made = without_(missing(), plan_);
  if (!made || (made->overcommit && !plan_.overcommit)) return false;
  rest_ = *std::move(made);
  return true;
}

NodePool::Left NodePool::go_on_without() {
  Left left{missing(), {}, {}};
  for (const plan::PlannedNode& node : plan_.nodes) {
    if (lost_.count(node.name) == 0) continue;
    if (node.companion.empty())
      left.lost.push_back(node.name);
    else if (std::find(left.companions.begin(), left.companions.end(), node.companion) == left.companions.end())
      left.companions.push_back(node.companion);
  }
  lost_.clear();
  bad_.clear();
  take(*std::move(rest_));
  rest_.reset();
  return left;
}

std::vector<std::string> NodePool::suspects(const Attempt& attempt, bool without_lost) const {
  const std::vector<plan::PlannedNode>& stay = next(without_lost).nodes;
  std::set<std::string> names;
  for (const Failure& failure : attempt.failures()) {
    if (failure.asked || failure.rank < 0) continue;
    const std::string& host = attempt.learner(failure.rank).host;
    if (!companion_of(failure.rank).empty()) continue;
    if (std::any_of(stay.begin(), stay.end(), [&](const plan::PlannedNode& node) { return node.name == host; }))
      names.insert(host);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> NodePool::resume(const record::RunMemory& memory, int64_t now_ms, int64_t now_unix_ms) {
  fence_until_ms_ = now_ms + std::clamp<int64_t>(memory.fence_unix_ms - now_unix_ms, 0, kMostFenceMs);
  if (memory.store_host == record::kStoreWithoutLibuv)
    use_store_without_libuv();
  else if (!memory.store_host.empty())
    drop_launcher_store();
  if (!memory.left_out.empty() && without_) {
    auto rest = without_(memory.left_out, plan_);
    // If this fails, the plan stays as it is: it has none of these nodes, or dlrun could not plan without them before,
    // either.
    if (rest) take(*std::move(rest));
  }
  const std::vector<std::string> planned = names();
  for (const std::string& name : memory.lost)
    if (std::find(planned.begin(), planned.end(), name) != planned.end()) lost_.insert(name);
  if (lost_.empty() || !rest_suffices()) return {};
  return go_on_without().lost;
}

}  // namespace dl::supervise
