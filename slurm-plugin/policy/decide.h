// SPDX-License-Identifier: Apache-2.0
// The decision: what to do with the cluster as it is now. A pure function: the same state gives the same decision.
//
// 1. Running jobs are charged anew (ledger.h), without a restart: `moves`.
// 2. Claims: pending jobs that fit their tenant's own quota. Those that were promised a place come first: their quota
//    and places are set aside before anything else is decided; then the others, oldest first. A claim starts on free
//    GPUs; else jobs on borrowed GPUs are asked to yield to it; else it waits until the minimum run time of such jobs
//    is over, and what is free already of the place that it will get is kept for it.
// 3. What is left is lent: tenant by tenant in the order of fair share, each tenant's jobs oldest first; a tenant whose
//    group has idle quota comes before the others. A job that does not fit lets smaller ones pass, unless it has waited
//    longer than the cluster's patience: then free GPUs are kept for it (reservation.h).
// 4. Where the site asks for it, borrowers are asked to yield to tenants that borrow less for their weight (balance.h).
// A job within quota is never a victim, except of a guaranteed job of its own tenant (own_tenant.h). Only claims have
// victims, and in step 4 borrowers whose tenant has the smaller share even afterwards. So no two jobs can take from one
// another in turn.
#pragma once

#include <vector>

#include "slurm-plugin/policy/ledger.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {

struct Start {
  int job = 0;  // index into the state's jobs
  Charge charge = Charge::kOwn;
  int type = 0;
  std::vector<Part> parts;
  int own_part = 0;  // Job::own_part
};

struct Reclaim {
  int claimant = 0;  // index of a pending job, which starts when the victims have gone
  int type = 0;
  std::vector<Part> parts;  // where it will fit then
  VictimSet set;            // without those that were asked earlier and have not gone yet
};

enum class Reason {
  kVictimsLeaving,    // its victims have been asked to yield
  kVictimsProtected,  // a claim: its victims are protected by their minimum run time, for `seconds` more
  kNoPlace,           // too few GPUs are free, or too few on single nodes; `free`: the free ones
  kQuota,             // a guaranteed job: the quota has `free` left
  kBorrowLimit,       // the tenant borrows `used` of `limit`
  kUserLimit,         // its user holds `used` of the `limit` that one user of the tenant may have
  kKept,              // GPUs are free, but their owners do not lend them
};

struct Waiting {
  int job = 0;
  Reason reason = Reason::kNoPlace;
  int asked = 0;          // GPUs, at its smallest size
  int free = 0;           // GPUs
  int used = 0;           // GPUs
  int limit = 0;          // GPUs
  int own = 0;            // GPUs of `asked` that the quota could still cover; the rest would be borrowed
  int64_t seconds = 0;    // until the reason may go away by itself, 0 if unknown
  bool kept_for = false;  // free GPUs are being kept for it
  // Of a job with victims, or for which GPUs are kept: where it will run. What is free of that already is kept for it.
  std::vector<Part> parts;
  // Of a job that would fit on free GPUs which are reserved for a gang (reservation.h): the index of that gang, which
  // is expected to start in `reserved_s` seconds. -1: none.
  int reserved_for = -1;
  int64_t reserved_s = 0;
  bool lent = false;  // a loan: its victims leave, and it will be charged as borrowed (balance.h)
  // Of a guaranteed job whose victims leave or are protected: jobs of its own tenant hold the quota and yield to it.
  bool within_tenant = false;
};

struct Decision {
  std::vector<Move> moves;    // by job
  std::vector<Start> starts;  // in the order of decision
  // In the order of decision, too; only those with new victims. A job may be a victim several times, each time with
  // fewer learners left: the last number counts, and it pauses once.
  std::vector<Reclaim> reclaims;
  std::vector<Waiting> waiting;  // every other pending job, by job
};

// Whether Decision::waiting says of every job why it waits, or only of those whose victims leave or are protected: a
// simulator looks at no others, and there may be thousands in each of many thousand decisions. All else is the same.
enum class Tell { kAll, kWhatFollows };

// Precondition: check(state) holds. Pending jobs that can never run (admission.h) wait for ever.
Decision decide(const ClusterState& state, Tell tell = Tell::kAll);
// The same decision without a copy of the state, which would take as long as the decision itself: charges of running
// jobs in *state are changed meanwhile, and are as before when it returns.
Decision decide(ClusterState* state, Tell tell = Tell::kAll);

}  // namespace dl::policy
