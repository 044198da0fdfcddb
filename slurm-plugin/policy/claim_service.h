// SPDX-License-Identifier: Apache-2.0
// Serves the claims of one decision one after another. The class is divided over these files: claims.cpp has the order
// of the claims and the promises of earlier decisions, claim_starts.cpp the starts on free GPUs, take_back.cpp the
// choice of victims for one claim, and take_together.cpp, take_within.cpp and take_in_turns.cpp the choice for several
// claims at once. Only these files include this; others call serve_claims().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "slurm-plugin/policy/borrower_search.h"
#include "slurm-plugin/policy/claims.h"
#include "slurm-plugin/policy/in_turns.h"
#include "slurm-plugin/policy/joint.h"
#include "slurm-plugin/policy/space.h"

namespace dl::policy {

class ClaimService {
 public:
  explicit ClaimService(Round* round);

  void serve();

 private:
  using When = OwnTenant::When;
  enum class From { kBorrowers, kOwnTenant };  // whom a claim takes back from
  // The place that a claim was promised, which is kept from all others until its turn.
  struct Aside {
    int index;
    int type;
    Space::Kept kept;
  };
  struct Found {
    int type;
    VictimSet set;
  };
  using Allowed = std::function<bool(int type)>;

  // claims.cpp
  bool is_promised(int index) const { return promised_[index] != 0; }
  // A job that was asked to yield already may be asked for more, whatever its minimum run time.
  bool may_be_asked(const Job& job) const { return job.yields_to != kNobody || round_.old_enough(job); }
  void serve_promised(const std::vector<int>& order, std::vector<char>* done);
  void set_aside(int index, Ledger* later, std::vector<Aside>* asides);
  Space::Kept keep(const Aside& aside);
  bool start_where_promised(const Aside& aside, Ledger* later);
  bool start_promised(const Aside& aside, Ledger* later);
  void wait_promised(const Aside& aside);
  void hold_for(int index, int type, int sign);
  std::vector<Leaving> hold_quota(int index, int type);
  void count_quota(int index, int type, int sign);
  void release_quota(int index, int type, const std::vector<Leaving>& displaced);
  bool fits_quota(const Job& job) const;

  // claim_starts.cpp
  bool start_on_free(int index, const Allowed& allowed);
  bool claim(int index);
  void start(int index, int type, std::vector<Part> parts);
  void grow(Start* start);
  bool could_hold(const Job& job) const;
  bool start_beside_own_tenant(int index, const Allowed& allowed);
  void recharge(const std::vector<Leaving>& jobs);

  // take_back.cpp
  bool take_back(int index, From from);
  // Tenant, type, size of a learner.
  static std::array<int, 3> kind_of(const Job& job) { return {job.tenant, job.type, job.gpus_per_learner}; }
  bool known_hopeless(const Job& job, From from) const;
  std::optional<Found> cheapest(int index, Space::When when, From from);
  template <typename Search>
  std::optional<Found> cheapest_of_types(const Job& job, Search search) const;
  bool leave_quota(int index, int type, Space::When when, const std::vector<Victim>& victims, bool may_recharge);
  bool quota_holds(int index, int type, Space::When when, bool may_recharge);
  Taken commit(int index, const Found& found, Space::When when);
  void ask(const Victim& victim, Space::When when);
  bool wait_for_protected(int index, From from);

  // take_together.cpp
  bool take_together(bool may_change_types);
  std::optional<bool> take_together(const std::vector<Taken>& claims, const SoFar& before);
  bool quotas_hold(const std::vector<Taken>& claims, const std::vector<int>& types);
  bool may_share(const std::vector<Taken>& claims) const;
  SoFar before_all(const std::set<int>& claimants) const;
  void take_up_all(const std::vector<Taken>& claims, const SoFar& before);
  void settle(const Taken& claim);
  void tell(const std::vector<Taken>& claims, size_t first_start);
  void start_after_all(const Taken& claim);
  void take_up(int index, int keeps);

  // take_within.cpp
  bool take_within_tenants();
  bool takes_from_alone(const Taken& claim, int tenant) const;
  bool take_within(int tenant, std::vector<Taken> claims, const JointSteps& most, SoFar* before);
  bool quotas_hold_in_turns(const std::vector<Taken>& claims, const std::vector<Taken>& found, const SoFar& before);

  // take_in_turns.cpp; QuotasInTurns: quotas_in_turns.h
  class QuotasInTurns;
  bool take_in_turns();
  void put_in_place(const std::vector<Taken>& claims, std::vector<Taken>* found, const SoFar& before);
  std::vector<Yielding> who_may_yield(const std::vector<Taken>& claims, const SoFar& before) const;

  Round& round_;
  Space space_;
  SoFar so_far_;
  std::vector<int> left_asked_;    // as so_far_.left, but victims that will be asked later keep all their learners here
  SoFar before_;                   // so_far_ as it was before this decision
  std::vector<Taken> taken_;       // claims for which GPUs are taken back, and which were promised nothing before
  std::vector<int> takeable_;      // borrowers that may be asked to yield now, rising indexes
  std::vector<int> protected_;     // borrowers within their minimum run time, likewise
  std::vector<char> planned_;      // by running job: victim of a claim that waits for protected ones
  std::vector<char> promised_;     // by waiting job: it was promised a place, or jobs were asked to yield to it
  std::set<int64_t> leaving_for_;  // ids of claims whose victims were asked earlier and have not gone yet
  // By From, then by kind_of(): the fewest learners for which no set of victims was found.
  std::map<std::array<int, 3>, int> hopeless_[2];
  bool smallest_ = false;          // while promised claims are served: elastic ones start at their smallest size
  std::vector<size_t> cut_short_;  // of decision.starts: those that may grow once all promised claims are served
  int budget_;
  int64_t turn_steps_;  // of all passes of take_in_turns()
  BorrowerSearch borrowers_;
};

}  // namespace dl::policy
