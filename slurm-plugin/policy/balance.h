// SPDX-License-Identifier: Apache-2.0
// Fair shares among running borrowers, for sites that turn it on (ClusterState::balance): where a job could be lent
// GPUs but finds no place, jobs of the tenant that borrows most for its weight are asked to yield to it.
//
// All its victims are of one tenant and give up no more GPUs than it gets. Its own tenant then borrows, divided by its
// weight, at most what the victims' tenant still borrows divided by that one's weight. So each time either more GPUs
// are in use than before, or as many, and the sum of borrowed^2 / weight falls: nobody can take the same share back,
// and without new jobs this comes to an end. Only what is borrowed now counts; past use decides who is lent free GPUs,
// but stops no running job.
#pragma once

#include <optional>
#include <vector>

#include "slurm-plugin/policy/reservation.h"
#include "slurm-plugin/policy/round.h"

namespace dl::policy {

// To be called after lend(), with what that keeps for a gang: nobody is asked to yield to a job that would delay the
// gang. Serves at most one job of each tenant, of those that wait with Reason::kNoPlace.
void balance(Round* round, std::optional<Reservation> reserved);

// Serves jobs that an earlier decision promised a loan (Waiting::lent), before anybody else is lent anything. They
// start or go on waiting, and leave the round's queue; one stays in it if its victims have gone and it finds no place.
void keep_loans(Round* round);

// A pending job that was promised a loan: victims yield to it, and it will be charged as borrowed.
inline bool is_loan(const Job& job) {
  return !job.running && job.promised && job.charge == Charge::kBorrowed;
}

// How many of `gpus` GPUs the tenant's quota still covers. 0 if it covers all of them: claims were served before, so
// what is left then is meant for others. 0 also if the job's tier is not auto, or while the quota is kept for another
// job.
int part_within_quota(const Round& round, const Job& job, int type, int gpus);
// Whether the tenant may borrow `gpus` more, if it also borrows what its guaranteed jobs displace when they start.
bool within_borrow_limit(const Round& round, int tenant, int gpus);
// Whether the tenant may borrow gpus - own GPUs more, and others lend them. The round is left as it was.
bool may_borrow(Round* round, const Job& job, int type, int gpus, int own);

}  // namespace dl::policy
