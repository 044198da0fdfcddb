// SPDX-License-Identifier: Apache-2.0
// Fair shares among borrowers that run already, for sites that turn it on (ClusterState::balance): a job that would be
// lent to and finds no place takes back from the tenant that borrows most for its weight.
//
// It takes no more GPUs than it gets, from one tenant, and only as far as that is fair afterwards, too: what the tenant
// of the newcomer borrows then, for its weight, is at most what the other one still borrows for its own. So each time
// either more GPUs are in use than before, or as many, and the sum of borrowed^2 / weight falls: nobody can take the
// same share back, and where nothing new comes it ends. What counts is what is borrowed now; past use decides who is
// lent free GPUs, but moves nobody.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/round.h"

namespace dl::policy {

// After lend(): of what waits then for want of place, at most one job of each tenant.
void balance(Round* round);

// What those that waited so get, before anybody else is lent anything: Waiting::lent of an earlier decision. They leave
// the round's queue.
void keep_loans(Round* round);

// A pending job that victims make place for, and that will be charged as borrowed.
inline bool is_loan(const Job& job) {
  return !job.running && job.promised && job.charge == Charge::kBorrowed;
}

// Of so many GPUs, those that its tenant's quota has left. None of a job that would fit it as a whole: as a claim it
// could have had them, and what is left is kept from it.
int part_within_quota(const Round& round, const Job& job, int type, int gpus);
// So many GPUs more, beside those that its jobs will borrow once guaranteed ones of it start, are within its limit.
bool within_borrow_limit(const Round& round, int tenant, int gpus);
// The rest of these is within what the tenant may borrow and the others lend.
bool may_borrow(Round* round, const Job& job, int type, int gpus, int own);

}  // namespace dl::policy
