// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/job_tokens.h"

#include <algorithm>

namespace dl::policyd {
namespace {

using policy::Charge;
using policy::kAnyType;
using policy::Licence;

// The tokens of slurm-dl among the licences, sorted.
std::vector<Licence> tokens_in(const std::string& licences) {
  std::vector<Licence> ours;
  for (Licence& licence : policy::parse_licences(licences))
    if (policy::parse_token(licence.name)) ours.push_back(std::move(licence));
  std::sort(ours.begin(), ours.end(), [](const Licence& a, const Licence& b) { return a.name < b.name; });
  return ours;
}

// The most GPUs of a type that the job could ever get within its quota (that of its tenant and of the groups around
// it), as a whole number of learners.
int most_own(const policy::ClusterState& state, const policy::Job& job, int type) {
  const int learners = std::min(job.max_learners, policy::most_own(state, job.tenant, type) / job.gpus_per_learner);
  return learners * job.gpus_per_learner;
}

// The type to whose quota a waiting job is charged. If the job names no type: none if the quota for any type is large
// enough, else the type of which the tenant has the largest quota.
int type_charged(const policy::ClusterState& state, const policy::Job& job) {
  if (job.type != kAnyType) return job.type;
  const auto most = [&](int type) { return policy::most_own(state, job.tenant, type); };
  int best = kAnyType;
  if (most(kAnyType) >= job.min_learners * job.gpus_per_learner && state.type_count() > 1) return best;
  for (int type = 0; type < state.type_count(); ++type)
    if (best == kAnyType || most(type) > most(best)) best = type;
  return best;
}

}  // namespace

JobTokens::JobTokens(const policy::ClusterState& state) : state_(state), left_(state) {}

std::string JobTokens::pick(const std::string& present, const policy::Job& job, const Charged& as, int type, int gpus,
                            policy::TokensLeft* left) {
  auto wanted = policy::tokens_for(state_, job.tenant, type, gpus, as.charge, left, as.own_part);
  if (!wanted) return present;
  std::vector<Licence> sorted = *wanted;
  std::sort(sorted.begin(), sorted.end(), [](const Licence& a, const Licence& b) { return a.name < b.name; });
  if (sorted == tokens_in(present)) return present;
  return policy::with_tokens(policy::without_tokens(present), policy::format_licences(*wanted));
}

std::string JobTokens::of_running(const std::string& present, const policy::Job& job, const Charged& as) {
  return pick(present, job, as, state_.type_held(job), job.gpus(), &left_);
}

bool JobTokens::owns_for(int tenant, const std::string& group) const {
  const std::vector<int> groups = policy::groups_of(state_, tenant);
  return std::any_of(groups.begin(), groups.end(), [&](int index) {
    return state_.quota_of(index) != nullptr && state_.groups[index].name == group;
  });
}

std::string JobTokens::of_pending(const std::string& present, const policy::Job& job, const Charged& as, int type,
                                  int gpus) {
  if (gpus > 0) return pick(present, job, as, type, gpus, &left_);
  if (as.charge == Charge::kBorrowed)
    return pick(present, job, as, type, job.min_learners * job.gpus_per_learner, nullptr);
  // A job that only waits keeps the tokens that it has if they are its tenant's and fit a size that it may have.
  int held = 0;
  bool own = true;
  for (const Licence& licence : tokens_in(present)) {
    const auto token = policy::parse_token(licence.name);
    const bool of_group = token->tenant.empty() && owns_for(job.tenant, token->group);
    own = own && !token->borrow && (of_group || token->tenant == state_.tenants[job.tenant].name);
    held += licence.count;
  }
  const int size = job.gpus_per_learner;
  if (own && held % size == 0 && held >= job.min_learners * size && held <= job.max_learners * size) return present;
  const int charged = type_charged(state_, job);
  const int most = most_own(state_, job, charged);
  return most < job.min_learners * size ? present : pick(present, job, as, charged, most, nullptr);
}

}  // namespace dl::policyd
