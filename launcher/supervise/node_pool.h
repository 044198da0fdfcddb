// SPDX-License-Identifier: Apache-2.0
// The nodes of a run: the current plan, nodes that were lost or found bad, the plan without these, and the fence: a
// time before which no learner starts. The class has no clock: callers pass times of the awake clock, or Unix time
// where a name says so.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/record/run_memory.h"

namespace dl::supervise {

class Attempt;

class NodePool {
 public:
  // Makes a plan for the allocation without these nodes, which no later plan uses either. Fails if the rest cannot hold
  // the learners. An empty function: the run cannot go on without a node.
  using Without = std::function<Result<plan::LaunchPlan>(const std::vector<std::string>&, const plan::LaunchPlan&)>;

  // Makes a plan with nodes of a companion (plan::make_plan_with()), which later plans use, too.
  using With = std::function<Result<plan::LaunchPlan>(const std::vector<plan::Node>&, const plan::LaunchPlan&)>;

  NodePool(plan::LaunchPlan plan, Without without, With with = {})
      : plan_(std::move(plan)), without_(std::move(without)), with_(std::move(with)) {}

  const plan::LaunchPlan& plan() const { return plan_; }
  std::vector<std::string> names() const;  // of the nodes in plan()
  const std::string& name_of(int rank) const;

  // From now on learner 0 hosts the store, also in later plans.
  void drop_launcher_store();
  // The same, and learners get USE_LIBUV=0: for a PyTorch without libuv.
  void use_store_without_libuv();
  std::string store_host() const;  // for RunMemory::store_host

  // A new attempt begins: forgets which nodes the last one has lost.
  void begin_attempt() { lost_.clear(); }
  // Counts the node of this learner as lost; if it is a companion's, all nodes of that companion.
  void lose(int rank);
  void lose_companion(const std::string& job);
  bool any_lost() const { return !lost_.empty(); }
  bool any_own_lost() const;  // one that is no companion's
  void found_bad(const std::vector<std::string>& names) { bad_.insert(names.begin(), names.end()); }

  // Lets no learner start before this time. False: the fence is later already.
  bool raise_fence(int64_t until_ms);
  bool fenced(int64_t now_ms) const { return now_ms < fence_until_ms_; }

  // Whether the allocation without lost and bad nodes can hold the learners. It cannot if a node would get more
  // learners than Slurm gave it tasks for: the job would be slower than what was asked for.
  bool rest_suffices();
  // The plan of the next attempt. without_lost: only after rest_suffices() returned true.
  const plan::LaunchPlan& next(bool without_lost) const { return without_lost ? *rest_ : plan_; }
  struct Left {
    std::vector<std::string> out;         // all nodes that the new plan leaves out
    std::vector<std::string> lost;        // those of them that were lost, which the caller gives back to Slurm
    std::vector<std::string> companions;  // whose nodes were lost: the caller gives them back as a whole
  };
  // Makes the plan without lost and bad nodes the current one. Only after rest_suffices() returned true.
  Left go_on_without();

  // ---- companions
  std::string companion_of(int rank) const;  // empty: the node is the job's own
  bool can_grow() const { return static_cast<bool>(with_); }
  bool uses(const std::string& companion) const;
  bool any_lost_of(const std::string& companion) const;
  // Makes the plan with these nodes, for the next attempt. Errors as With; kConflict if the run cannot have more nodes.
  Status plan_larger(const std::vector<plan::Node>& nodes);
  const std::optional<plan::LaunchPlan>& larger() const { return larger_; }
  void take_larger();  // it becomes the current one
  void drop_larger();  // no later plan uses these nodes

  // Nodes of the next plan on which learners failed by themselves, those of companions apart; sorted.
  std::vector<std::string> suspects(const Attempt& attempt, bool without_lost) const;

  // Takes over what a dlrun that died had learned. Returns the nodes that it had lost and not yet left out, if the rest
  // of the allocation suffices: they are left out now and have to be given back to Slurm. Else they count as lost.
  std::vector<std::string> resume(const record::RunMemory& memory, int64_t now_ms, int64_t now_unix_ms);

 private:
  std::vector<std::string> missing() const;  // lost or bad
  void take(plan::LaunchPlan plan);

  plan::LaunchPlan plan_;
  Without without_;
  With with_;
  std::set<std::string> lost_;  // in the newest attempt
  std::set<std::string> bad_;   // a check has found them bad, and no plan leaves them out yet
  std::optional<plan::LaunchPlan> rest_, larger_;
  int64_t fence_until_ms_ = 0;
  bool no_launcher_store_ = false, no_libuv_ = false;
};

}  // namespace dl::supervise
