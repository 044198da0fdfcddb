// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/sizes/further.h"

#include <algorithm>

#include "common/contract/companion_hint.h"

namespace dl::policy {
namespace {

// The job's learners on the nodes of its companions.
std::vector<Part> parts_beside(const ClusterState& state, const Grown& grown) {
  std::vector<Part> beside;
  for (const int companion : grown.companions)
    for (const Part& part : state.jobs[companion].parts)
      beside.push_back(
          {part.node, part.learners * state.jobs[companion].gpus_per_learner / state.jobs[grown.job].gpus_per_learner});
  return beside;
}

bool can_be_one(const ClusterState& state, const Grown& grown) {
  const Job& job = state.jobs[grown.job];
  if (!job.running || grown.companions.empty() || grown.companions.size() >= kMostCompanions) return false;
  for (const int companion : grown.companions) {
    const Job& its = state.jobs[companion];
    if (!its.running || !its.companion || its.tenant != job.tenant || its.yields_to != kNobody) return false;
    if (its.gpus_per_learner % job.gpus_per_learner != 0 || state.type_held(its) != state.type_held(job)) return false;
    for (const Part& part : its.parts)
      if (std::any_of(job.parts.begin(), job.parts.end(), [&](const Part& own) { return own.node == part.node; }))
        return false;
  }
  return job.learners() + learners_of(parts_beside(state, grown)) <= job.max_learners;
}

// Without the companions that are parts of others; *index says where the others are then.
void remove_companions(const std::vector<char>& part_of_other, ClusterState* state, std::vector<int>* index) {
  std::vector<Job> left;
  for (size_t i = 0; i < state->jobs.size(); ++i) {
    index->push_back(part_of_other[i] != 0 ? kNobody : static_cast<int>(left.size()));
    if (part_of_other[i] == 0) left.push_back(std::move(state->jobs[i]));
  }
  state->jobs = std::move(left);
  state->first_running = 0;
}

// The resize of such a job on the state as it is: what its companions have is not its own. False: it would leave some
// of these nodes, or would not become larger.
bool as_own(const ClusterState& state, const Grown& grown, Resize* resize) {
  const std::vector<Part> beside = parts_beside(state, grown);
  if (learners_of(resize->parts) <= state.jobs[grown.job].learners() + learners_of(beside)) return false;
  for (const Part& part : beside) {
    const auto its = std::find(resize->parts.begin(), resize->parts.end(), part);
    if (its == resize->parts.end()) return false;
    resize->parts.erase(its);
  }
  resize->job = grown.job;
  return true;
}

}  // namespace

Joined with_companions(const ClusterState& state, const std::vector<Grown>& grown) {
  Joined joined{state, {}, {}};
  std::vector<char> part_of_other(state.jobs.size());
  for (const Grown& one : grown) {
    const bool taken = std::any_of(one.companions.begin(), one.companions.end(),
                                   [&](int companion) { return part_of_other[companion] != 0; });
    if (taken || !can_be_one(state, one)) continue;
    Job& job = joined.state.jobs[one.job];
    // What the companions hold is borrowed.
    job.own_part = job.own_of(job.gpus());
    job.charge = Charge::kBorrowed;
    for (const Part& part : parts_beside(state, one)) job.parts.push_back(part);
    std::sort(job.parts.begin(), job.parts.end(), [](const Part& a, const Part& b) { return a.node < b.node; });
    for (const int companion : one.companions) part_of_other[companion] = 1;
    joined.grown.push_back(one);
  }
  remove_companions(part_of_other, &joined.state, &joined.index);
  return joined;
}

std::vector<Growth> grow_further(const ClusterState& state, const Decision& decision, const std::vector<MayGrow>& may,
                                 const std::vector<JobSpeeds>& speeds, const SizeOptions& options, Joined* joined) {
  if (joined->grown.empty() || speeds.empty()) return {};
  SteadySizes sizes{decision, {}};
  for (const Resize& resize : decide_steadily(&joined->state, speeds, options).resizes) {
    if (resize.starts) continue;
    for (const Grown& grown : joined->grown) {
      if (joined->index[grown.job] != resize.job) continue;
      Resize larger = resize;
      if (as_own(state, grown, &larger)) sizes.resizes.push_back(std::move(larger));
    }
  }
  std::vector<Growth> growths = grow_in_place(state, may, &sizes);
  for (Growth& growth : growths)
    for (const Grown& grown : joined->grown)
      if (grown.job == growth.job) growth.before += learners_of(parts_beside(state, grown));
  return growths;
}

}  // namespace dl::policy
