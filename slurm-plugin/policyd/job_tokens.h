// SPDX-License-Identifier: Apache-2.0
// The licences that each job holds for its charge: the same that the ledger counts. Pure.
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
  // All of every tenant's and group's quota is there to be held.
  explicit JobTokens(const policy::ClusterState& state);

  // What the job's licences should be: those of `present` that are not ours, and tokens for the GPUs it holds, which
  // are then not there for others any more. Asked for the running jobs first, the oldest first. `present` itself where
  // that says the same, or where the tokens are not there.
  std::string of_running(const std::string& present, const policy::Job& job, const Charged& as);

  // The same for a pending job. `gpus`, if not 0: it may start now with so many GPUs of `type`; else it only waits, and
  // asks for what it would at most be given as its own.
  std::string of_pending(const std::string& present, const policy::Job& job, const Charged& as, int type, int gpus);

 private:
  std::string pick(const std::string& present, const policy::Job& job, const Charged& as, int type, int gpus,
                   policy::TokensLeft* left);

  bool owns_for(int tenant, const std::string& group) const;

  const policy::ClusterState& state_;
  policy::TokensLeft left_;
};

}  // namespace dl::policyd
