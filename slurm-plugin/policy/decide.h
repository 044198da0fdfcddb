// SPDX-License-Identifier: Apache-2.0
// The decision: what to do with the cluster as it is now. A pure function: the same state gives the same decision.
//
// 1. Running jobs are charged anew (ledger.h): moves, without a restart.
// 2. Claims: pending jobs that fit their tenant's own quota, oldest first, those that were promised a place before
//    all others: their quota and their places are set aside before anything else is decided. A claim starts on free
//    GPUs; else it takes back from jobs that run on borrowed ones; else it waits for those that are still protected by
//    their minimum run time, and what is free of the place it will get is kept.
// 3. What is left is lent: tenant by tenant in the order of fair share, each tenant's jobs oldest first; a tenant whose
//    group has idle quota comes before the others. A job that does not fit lets smaller ones pass, unless it has waited
//    longer than the cluster's patience: then free GPUs are kept for it.
// 4. Where the site asks for it, borrowers make place for tenants that have less of what is lent (balance.h).
// A job that runs within quota is never a victim, but of a guaranteed job of its own tenant (own_tenant.h), and only a
// claim has victims, or a borrower whose share is the lesser one afterwards, too: so no two jobs can take from one
// another.
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
  int claimant = 0;  // index of a pending job; it starts, charged as own, when the victims have gone
  int type = 0;
  std::vector<Part> parts;  // where it will fit then
  VictimSet set;            // without those that were asked earlier and have not gone yet
};

enum class Reason {
  kVictimsLeaving,    // a claim: its victims have been asked to yield
  kVictimsProtected,  // a claim: jobs on borrowed GPUs may not be taken from yet; `seconds` until they may
  kNoPlace,           // not enough free GPUs, or not as whole nodes; `free` are free
  kQuota,             // a job that may not borrow: the quota has `free` left
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
  int own = 0;            // GPUs of those asked that the quota has left; the rest would be borrowed
  int64_t seconds = 0;    // until the reason may go away by itself, 0 if unknown
  bool kept_for = false;  // free GPUs are being kept for it
  // Of a job that victims make room for, or GPUs are kept for: where it will run. What is free of that is kept.
  std::vector<Part> parts;
  // Of a job that what is free would do for, but for a gang that smaller jobs passed (reservation.h): that gang, which
  // is expected to start when `reserved_s` have passed. -1: there is none.
  int reserved_for = -1;
  int64_t reserved_s = 0;
  bool lent = false;  // its victims leave, and what it gets will be borrowed (balance.h)
  // Of a guaranteed job whose victims leave or are protected: jobs of its own tenant have the quota, and give way.
  bool within_tenant = false;
};

struct Decision {
  std::vector<Move> moves;    // by job
  std::vector<Start> starts;  // in the order of decision
  // Likewise; only those with new victims. A job may be asked for several claims, each time for more: the last word
  // counts, and it pauses once.
  std::vector<Reclaim> reclaims;
  std::vector<Waiting> waiting;  // every other pending job, by job
};

// Precondition: check(state) holds. Pending jobs that can never run (admission.h) wait for ever.
Decision decide(const ClusterState& state);

}  // namespace dl::policy
