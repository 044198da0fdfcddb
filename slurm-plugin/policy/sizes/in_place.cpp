// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/sizes/in_place.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "slurm-plugin/policy/free_gpus.h"
#include "slurm-plugin/policy/ledger.h"

namespace dl::policy {
namespace {

class InPlace {
 public:
  InPlace(const ClusterState& state, const std::vector<MayGrow>& may, const SteadySizes& sizes)
      : state_(state),
        may_(may),
        free_(state),
        ledger_(state),
        type_wanted_(state.types.size()),
        tenant_waits_(state.tenants.size()) {
    for (const Start& start : sizes.decision.starts) wants(start.job);
    for (const Waiting& waiting : sizes.decision.waiting) wants(waiting.job);
    for (const Resize& resize : sizes.resizes) {
      if (resize.starts) wants(resize.job);
      // What a resize through the queue would use is not free for others.
      if (!resize.starts) free_.take(more_of(resize), state.jobs[resize.job].gpus_per_learner);
    }
    for (const Node& node : state.nodes) ++pools_of_[node.name];
  }

  // The nodes that the job would get; nothing: it cannot grow so.
  std::optional<Growth> of(const Resize& resize) {
    if (resize.starts || !may_grow(resize)) return std::nullopt;
    const Job& job = state_.jobs[resize.job];
    free_.give(more_of(resize), job.gpus_per_learner);
    Growth growth = room_for(resize);
    const int node_gpus = job.parts.front().learners * job.gpus_per_learner;
    const auto fits = [&] {
      const int gpus = growth.nodes * node_gpus;
      return ledger_.within_borrow_limit(job.tenant, gpus) && ledger_.lendable(resize.type, gpus);
    };
    while (growth.nodes > 0 && !fits()) drop_node(&growth);
    if (growth.nodes == 0) {
      free_.take(more_of(resize), job.gpus_per_learner);
      return std::nullopt;
    }
    for (const int node : growth.free) free_.add(node, -state_.nodes[node].gpus);
    ledger_.add(job.tenant, resize.type, growth.nodes * node_gpus, Charge::kBorrowed);
    return growth;
  }

  // Those that could start as companions, all beside one another and beside the jobs that grow through the queue.
  std::vector<Growth> that_start(const std::vector<Growth>& growths, const std::vector<Resize>& resizes) const {
    ClusterState then = state_;
    for (const Resize& resize : resizes) {
      const bool in_place =
          std::any_of(growths.begin(), growths.end(), [&](const Growth& growth) { return growth.job == resize.job; });
      Job& job = then.jobs[resize.job];
      if (!in_place && !resize.starts && learners_of(resize.parts) > job.learners()) job.parts = resize.parts;
    }
    int64_t id = 0;
    for (const Job& job : then.jobs) id = std::max(id, job.id);
    for (const Growth& growth : growths) then.jobs.push_back(companion_for(state_, growth, ++id));
    const Decision decision = decide(then);
    std::vector<Growth> start;
    for (size_t i = 0; i < growths.size(); ++i) {
      const int index = static_cast<int>(state_.jobs.size() + i);
      const auto its = std::find_if(decision.starts.begin(), decision.starts.end(),
                                    [index](const Start& one) { return one.job == index; });
      if (its != decision.starts.end()) start.push_back(growths[i]);
    }
    return start;
  }

 private:
  void wants(int job) {
    const Job& its = state_.jobs[job];
    tenant_waits_[its.tenant] = 1;
    for (int type = 0; type < state_.type_count(); ++type)
      if (its.type == kAnyType || its.type == type) type_wanted_[type] = 1;
  }

  // What the job would have beyond its present parts.
  std::vector<Part> more_of(const Resize& resize) const {
    std::vector<Part> more;
    for (Part part : resize.parts) {
      for (const Part& has : state_.jobs[resize.job].parts)
        if (has.node == part.node) part.learners -= has.learners;
      if (part.learners > 0) more.push_back(part);
    }
    return more;
  }

  bool may_grow(const Resize& resize) const {
    const Job& job = state_.jobs[resize.job];
    if (!job.running || may_[resize.job] != MayGrow::kYes || job.tier == Tier::kGuaranteed) return false;
    if (tenant_waits_[job.tenant] != 0 || type_wanted_[resize.type] != 0 || learners_on_each(job) == 0) return false;
    if (job.limit_s > 0 && job.start_s + job.limit_s - state_.now_s < kTimesCost * cost_s(job)) return false;
    return std::all_of(job.parts.begin(), job.parts.end(), [&](const Part& part) {
      return std::find(resize.parts.begin(), resize.parts.end(), part) != resize.parts.end();
    });
  }

  // The whole nodes of the resize, then others: the optimiser may have filled up nodes that are in use in part.
  Growth room_for(const Resize& resize) const {
    const Job& job = state_.jobs[resize.job];
    const int each = learners_on_each(job);
    const int more = std::min(learners_of(resize.parts), job.max_learners) - job.learners();
    Growth growth{resize.job, 0, 0, {}, job.learners()};
    std::vector<int> nodes;
    for (const Part& part : resize.parts) nodes.push_back(part.node);
    nodes.insert(nodes.end(), free_.nodes_of(resize.type).begin(), free_.nodes_of(resize.type).end());
    for (const int node : nodes) {
      if (growth.learners + each > more) break;
      if (!is_whole(node, each * job.gpus_per_learner)) continue;
      if (std::find(growth.free.begin(), growth.free.end(), node) != growth.free.end()) continue;
      growth.free.push_back(node);
      ++growth.nodes;
      growth.learners += each;
    }
    std::sort(growth.free.begin(), growth.free.end());
    return growth;
  }

  static void drop_node(Growth* growth) {
    growth->learners -= growth->learners / growth->nodes;
    --growth->nodes;
    growth->free.pop_back();
  }

  int64_t cost_s(const Job& job) const { return std::min(job.restart_s, state_.most_restart_s); }

  static int learners_on_each(const Job& job) {
    if (job.parts.empty()) return 0;
    const int each = job.parts.front().learners;
    const bool same =
        std::all_of(job.parts.begin(), job.parts.end(), [each](const Part& part) { return part.learners == each; });
    return same ? each : 0;
  }

  // A machine with two types of GPU counts as two nodes; a companion would hold both.
  bool is_whole(int node, int gpus) const {
    const Node& its = state_.nodes[node];
    return free_.on(node) == its.gpus && its.gpus == gpus && pools_of_.at(its.name) == 1;
  }

  const ClusterState& state_;
  const std::vector<MayGrow>& may_;
  FreeGpus free_;
  Ledger ledger_;
  std::vector<char> type_wanted_, tenant_waits_;
  std::map<std::string, int> pools_of_;  // by name of a machine: how many nodes it counts as
};

}  // namespace

Job companion_for(const ClusterState& state, const Growth& growth, int64_t id) {
  const Job& parent = state.jobs[growth.job];
  Job job;
  job.id = id;
  job.submit_s = state.now_s;
  job.tenant = parent.tenant;
  job.user = parent.user;
  job.type = state.type_held(parent);
  job.gpus_per_learner = growth.learners / growth.nodes * parent.gpus_per_learner;
  job.min_learners = job.max_learners = growth.nodes;
  job.tier = Tier::kBorrow;
  job.charge = Charge::kBorrowed;
  job.companion = true;
  return job;
}

std::vector<Growth> grow_in_place(const ClusterState& state, const std::vector<MayGrow>& may, SteadySizes* sizes) {
  if (sizes->resizes.empty()) return {};
  InPlace in_place(state, may, *sizes);
  std::vector<Growth> growths;
  for (const Resize& resize : sizes->resizes)
    if (const auto growth = in_place.of(resize)) growths.push_back(*growth);
  if (growths.empty()) return {};
  // Those that cannot start are resized through the queue, beside which the others have to start.
  for (size_t before = 0; before != growths.size();) {
    before = growths.size();
    growths = in_place.that_start(growths, sizes->resizes);
  }
  const auto grows = [&](const Resize& resize) {
    return std::any_of(growths.begin(), growths.end(), [&](const Growth& one) { return one.job == resize.job; });
  };
  sizes->resizes.erase(std::remove_if(sizes->resizes.begin(), sizes->resizes.end(), grows), sizes->resizes.end());
  return growths;
}

void GrowthMemory::look(int64_t job, int64_t offered_s, int companions, int64_t now_s) {
  if (offered_s == 0 && companions == 0 && jobs_.count(job) == 0) return;
  Known& known = jobs_[job];
  known.looked = true;
  known.offered_s = std::max(known.offered_s, offered_s);
  known.changed_s = std::max(known.changed_s, companions == known.companions ? offered_s : now_s);
  if (companions > known.companions) known.answered_s = known.offered_s;
  known.companions = companions;
}

int64_t GrowthMemory::rests_until_s(int64_t job, int64_t rest_s) const {
  const auto known = jobs_.find(job);
  return known == jobs_.end() ? 0 : known->second.changed_s + rest_s;
}

bool GrowthMemory::refused(int64_t job, int64_t now_s) const {
  const auto known = jobs_.find(job);
  if (known == jobs_.end() || known->second.answered_s == known->second.offered_s) return false;
  const int64_t offered_s = known->second.offered_s;
  return now_s >= offered_s + kAnswerS && now_s < offered_s + kRefusedS;
}

void GrowthMemory::tidy() {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    it = it->second.looked ? std::next(it) : jobs_.erase(it);
  }
  for (auto& [job, known] : jobs_) known.looked = false;
}

}  // namespace dl::policy
