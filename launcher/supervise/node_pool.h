// SPDX-License-Identifier: Apache-2.0
// The nodes of a run: the plan that holds now, nodes that were lost or found bad, the plan that does without them, and
// the fence before which no learner starts. No clock: times are given, of the awake clock but where a name says unix.
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
  // A plan for what is left without these nodes, for good; fails where that does not hold the learners. Empty: there is
  // none.
  using Without = std::function<Result<plan::LaunchPlan>(const std::vector<std::string>&, const plan::LaunchPlan&)>;

  NodePool(plan::LaunchPlan plan, Without without) : plan_(std::move(plan)), without_(std::move(without)) {}

  const plan::LaunchPlan& plan() const { return plan_; }
  std::vector<std::string> names() const;  // those that hold learners
  const std::string& name_of(int rank) const;

  // From now on learner 0 hosts the store. In plans to come, too.
  void drop_launcher_store();
  // The same, for a PyTorch without libuv.
  void use_store_without_libuv();

  // A new attempt: which nodes the one before has lost is forgotten.
  void begin_attempt() { lost_.clear(); }
  // The node of this learner.
  void lose(int rank) { lost_.insert(name_of(rank)); }
  bool any_lost() const { return !lost_.empty(); }
  void found_bad(const std::vector<std::string>& names) { bad_.insert(names.begin(), names.end()); }

  // No learner starts before. False: a later one holds already.
  bool raise_fence(int64_t until_ms);
  bool fenced(int64_t now_ms) const { return now_ms < fence_until_ms_; }

  // Whether the rest of the allocation, without what is lost or bad, holds the learners as well as all of it did: more
  // learners on a node than Slurm gave it tasks for would be a slower job, and not what was asked for.
  bool rest_suffices();
  // The plan of the next attempt. without_lost: only after rest_suffices() said yes.
  const plan::LaunchPlan& next(bool without_lost) const { return without_lost ? *rest_ : plan_; }
  struct Left {
    std::vector<std::string> out;   // all that the new plan does without
    std::vector<std::string> lost;  // of these the lost ones: Slurm gets them back
  };
  // Takes the rest's plan. The same condition.
  Left go_on_without();

  // Nodes of the next plan on which learners failed by themselves; sorted.
  std::vector<std::string> suspects(const Attempt& attempt, bool without_lost) const;

  // In place of a dlrun that died: what it had learned holds on. Nodes that it had just lost, if any, are left out
  // where the rest suffices: Slurm is to get them back. Else they count as lost.
  std::vector<std::string> resume(const record::RunMemory& memory, int64_t now_ms, int64_t now_unix_ms);

 private:
  std::vector<std::string> missing() const;  // lost or bad
  void take(plan::LaunchPlan plan);

  plan::LaunchPlan plan_;
  Without without_;
  std::set<std::string> lost_;  // in the newest attempt
  std::set<std::string> bad_;   // a check has said so; not left out yet
  std::optional<plan::LaunchPlan> rest_;
  int64_t fence_until_ms_ = 0;
  bool no_launcher_store_ = false, no_libuv_ = false;
};

}  // namespace dl::supervise
