// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/policies/policies.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "common/base/parse.h"
#include "slurm-plugin/policy/placement.h"
#include "slurm-plugin/policy/sizes/further.h"
#include "slurm-plugin/policy/sizes/resize_order.h"
#include "slurm-plugin/policy/sizes/steady.h"
#include "slurm-plugin/policy/wanted.h"

namespace dl::sim {

using policy::Placement;

// To add a policy: a function in a file of its own, a row here, and a row in dlsim(1).
const std::vector<SimPolicy>& sim_policies() {
  static const std::vector<SimPolicy> kPolicies = {
      {"lend",
       "quotas that are lent while idle and taken back: what dlpolicyd does",
       plan_quotas,
       true,
       false,
       true,
       {}},
      {"lend-slurm",
       "the same, where Slurm chooses the nodes: nobody borrows beside GPUs that are being made free",
       plan_as_dlpolicyd,
       true,
       false,
       true,
       {}},
      {"lend-sizes",
       "as lend, and the optimiser chooses the sizes of elastic jobs, running ones too",
       plan_sizes,
       true,
       false,
       true,
       {},
       true},
      {"lend-in-place",
       "as lend-sizes, and jobs grow onto whole free nodes without leaving those that they have",
       plan_in_place,
       true,
       false,
       true,
       {},
       true},
      {"lend-spread", "as lend, every job spread over nodes", plan_quotas, true, false, true, Placement::kSpread},
      {"static", "quotas that nobody lends", plan_quotas, true, true, true, {}},
      {"fifo", "no quotas, strictly in the order of submission", plan_fifo, false, false, true, {}},
      {"backfill", "no quotas, in order, with EASY backfill", plan_backfill, false, false, true, {}},
      {"backfill-spread", "the same, every job spread over nodes", plan_backfill, false, false, true,
       Placement::kSpread},
      {"no-gang", "no quotas, learner by learner, the oldest job's first", plan_learners, false, false, false, {}},
      {"no-gang-mixed", "no quotas, learner by learner, in no order", plan_learners_shuffled, false, false, false, {}},
  };
  return kPolicies;
}

const SimPolicy* find_sim_policy(std::string_view name) {
  for (const SimPolicy& row : sim_policies()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

Result<std::vector<const SimPolicy*>> parse_sim_policies(std::string_view text) {
  std::vector<const SimPolicy*> chosen;
  std::string names = "all";
  for (const SimPolicy& row : sim_policies()) names += std::string(", ") + row.name;
  for (const std::string& name : split(text, ',')) {
    if (name == "all") {
      chosen.clear();
      for (const SimPolicy& row : sim_policies()) chosen.push_back(&row);
      return chosen;
    }
    const SimPolicy* found = find_sim_policy(name);
    if (found == nullptr)
      return Error{Errc::kInvalid, fmt::format("'{}' is not a policy; allowed: {}", printable(name), names)};
    if (std::find(chosen.begin(), chosen.end(), found) == chosen.end()) chosen.push_back(found);
  }
  if (chosen.empty()) return Error{Errc::kInvalid, fmt::format("'' is not a policy; allowed: {}", names)};
  return chosen;
}

int64_t View::limit_of(int job, int learners) const {
  return (limit_s[job] * state.jobs[job].max_learners + learners - 1) / learners;
}

Turn plan_quotas(const View& view, Dice* /*dice*/) {
  return Turn{policy::decide(&view.state, view.tell), {}, {}, {}};
}

std::optional<policy::Yield> told_of(const policy::Job& job) {
  if (job.yields_to == policy::kNobody) return std::nullopt;
  return policy::Yield{job.yields_to, 0, job.yields_until_learners};
}

namespace {

// Further growth of jobs that have companions. As in dlpolicyd, it is decided only when nothing else is to be done.
std::vector<policy::Growth> further(const View& view, const policy::SteadySizes& sizes,
                                    const policy::SizeOptions& options, const std::vector<policy::MayGrow>& may) {
  const policy::Decision& decision = sizes.decision;
  if (view.grown.empty() || !decision.starts.empty() || !decision.reclaims.empty() || !sizes.resizes.empty()) return {};
  policy::Joined joined = policy::with_companions(view.state, view.grown);
  std::vector<policy::JobSpeeds> speeds;
  for (const policy::Grown& grown : joined.grown)
    for (const policy::JobSpeeds& known : view.grown_speeds)
      if (known.job == grown.job) {
        speeds.push_back(known);
        speeds.back().job = joined.index[grown.job];
      }
  return policy::grow_further(view.state, decision, may, speeds, options, &joined);
}

Turn with_sizes(const View& view, bool in_place) {
  policy::SizeOptions options;
  options.each_s = policy::kResizeEachS;
  policy::SteadySizes sizes = policy::decide_steadily(&view.state, view.speeds, options);
  std::vector<policy::Growth> growths;
  // Each job hears what it is offered.
  const std::vector<policy::MayGrow> may(view.state.jobs.size(), policy::MayGrow::kYes);
  if (in_place) growths = policy::grow_in_place(view.state, may, &sizes);
  if (in_place && growths.empty()) growths = further(view, sizes, options, may);
  std::vector<policy::Resize>& all = sizes.resizes;
  std::set<int> claimed;
  for (const policy::Reclaim& reclaim : sizes.decision.reclaims)
    for (const policy::Victim& victim : reclaim.set.victims) claimed.insert(victim.job);
  const auto not_asked = [&](const policy::Resize& one) {
    if (one.starts) return true;
    const policy::Job& job = view.state.jobs[one.job];
    const policy::ResizeOrder order =
        policy::resize_order(view.state, job, told_of(job), claimed.count(one.job) != 0, learners_of(one.parts), {});
    return order.step != policy::ResizeStep::kAsk;
  };
  all.erase(std::remove_if(all.begin(), all.end(), not_asked), all.end());
  return Turn{std::move(sizes.decision), {}, std::move(all), std::move(growths)};
}

}  // namespace

Turn plan_sizes(const View& view, Dice* /*dice*/) {
  return with_sizes(view, false);
}

Turn plan_in_place(const View& view, Dice* /*dice*/) {
  return with_sizes(view, true);
}

// Slurm cannot be told which GPUs to leave alone, so dlpolicyd lets some jobs wait that the decision would start.
Turn plan_as_dlpolicyd(const View& view, Dice* /*dice*/) {
  policy::Decision decision = policy::decide(&view.state);
  const std::vector<policy::Wanted> wanted = policy::wanted(view.state, decision);
  const auto waits = [&](const policy::Start& start) { return !wanted[start.job].turn; };
  decision.starts.erase(std::remove_if(decision.starts.begin(), decision.starts.end(), waits), decision.starts.end());
  return Turn{std::move(decision), {}, {}, {}};
}

std::vector<int> queue_of(const policy::ClusterState& state) {
  std::vector<int> queue;
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    if (!state.jobs[i].running) queue.push_back(static_cast<int>(i));
  }
  std::sort(queue.begin(), queue.end(), [&](int a, int b) {
    const policy::Job& x = state.jobs[a];
    const policy::Job& y = state.jobs[b];
    return x.submit_s != y.submit_s ? x.submit_s < y.submit_s : x.id < y.id;
  });
  return queue;
}

std::optional<policy::Start> place_job(const policy::ClusterState& state, const policy::FreeGpus& free, int index) {
  const policy::Job& job = state.jobs[index];
  for (int type = 0; type < state.type_count(); ++type) {
    if (job.type != policy::kAnyType && job.type != type) continue;
    const int learners = std::min(job.max_learners, free.slots(type, job.gpus_per_learner));
    if (learners < job.min_learners) continue;
    auto parts = policy::place(job.placement, free, type, job.gpus_per_learner, learners);
    if (parts) return policy::Start{index, policy::Charge::kOwn, type, std::move(*parts), 0};
  }
  return std::nullopt;
}

}  // namespace dl::sim
