// SPDX-License-Identifier: Apache-2.0
// Computes the licences (tokens) that each job should hold for its charge, from the same numbers as policy::Ledger.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/tokens.h"

namespace dl::policyd {

// How a job is charged: Job::charge and Job::own_part.
struct Charged {
  policy::Charge charge = policy::Charge::kOwn;
  int own_part = 0;
};

class JobTokens {
 public:
  // At first the whole quota of every tenant and group is unused.
  explicit JobTokens(const policy::ClusterState& state);

  // The licences that a running job should have: those of `present` that are not ours, and tokens for the GPUs that it
  // holds; these are subtracted from what is left for others. The running jobs must come first, in the order of their
  // age. Returns `present` itself if it means the same, or if too few tokens are left.
  std::string of_running(const std::string& present, const policy::Job& job, const Charged& as);

  // The same for a pending job. If `gpus` is not 0, the job may start now with this number of GPUs of `type`; otherwise
  // it only waits, with tokens for the most GPUs that it could get as its own.
  std::string of_pending(const std::string& present, const policy::Job& job, const Charged& as, int type, int gpus);

 private:
  std::string pick(const std::string& present, const policy::Job& job, const Charged& as, int type, int gpus,
                   policy::TokensLeft* left);

  bool owns_for(int tenant, const std::string& group) const;

  const policy::ClusterState& state_;
  policy::TokensLeft left_;
};

}  // namespace dl::policyd
