// SPDX-License-Identifier: Apache-2.0
// Computes the licences (tokens) that each job should hold for its charge, from the same numbers as policy::Ledger.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/tokens.h"

namespace dl::policyd {

// What a job is charged as: Job::charge and Job::own_part.
struct Charged {
  policy::Charge charge = policy::Charge::kOwn;
  int own_part = 0;
};

class JobTokens {
 public:
  // Begins with the whole quota of every tenant and group unused.
  explicit JobTokens(const policy::ClusterState& state);

  // The licences that a running job should have: those of `present` that are not ours, and tokens for the GPUs it
  // holds, which are subtracted from what is left for others. To be called for the running jobs first, in the order of
  // their age. Returns `present` itself if it means the same, or if too few tokens are left.
  std::string of_running(const std::string& present, const policy::Job& job, const Charged& as);

  // The same for a pending job. If `gpus` is not 0, the job may start now with so many GPUs of `type`; else it only
  // waits, with tokens for as many GPUs as it could at most get as its own.
  std::string of_pending(const std::string& present, const policy::Job& job, const Charged& as, int type, int gpus);

 private:
  std::string pick(const std::string& present, const policy::Job& job, const Charged& as, int type, int gpus,
                   policy::TokensLeft* left);

  bool owns_for(int tenant, const std::string& group) const;

  const policy::ClusterState& state_;
  policy::TokensLeft left_;
};

}  // namespace dl::policyd
