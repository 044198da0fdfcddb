// SPDX-License-Identifier: Apache-2.0
// Finds out whether a set of victims is allowed: whether there is an order in which all claims can be served with it
// (in_turns.h has the rules). Only the files of in_turns.h include this.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "slurm-plugin/policy/in_turns.h"
#include "slurm-plugin/policy/turn_rooms.h"

namespace dl::policy::in_turns {

// One claim is served. All numbers here are indexes: of the claims, and of Candidates::all.
struct Turn {
  size_t claim;
  bool within;                // jobs of its own tenant yield to it
  std::vector<size_t> asked;  // candidates that yield to it
};

// A set of victims that is tried, and the type of GPU that each claim would get.
struct Tried {
  std::vector<size_t> chosen;  // the victims: candidates
  std::vector<int> target;     // by candidate: how many learners it would keep
  std::vector<int> types;      // by claim
};

class Orders {
 public:
  // All of these must outlive this object. *steps is counted down with each step; at 0 the search ends without a
  // result.
  Orders(const ClusterState& state, const std::vector<Taken>& claims, const Candidates& candidates, bool some_protected,
         Rooms* rooms, TurnQuotas* quotas, int64_t* steps);

  // Calls `found` with one order after another in which all claims are served and all victims yield, until it returns
  // true. Returns whether it did.
  using Found = std::function<bool(const std::vector<Turn>& turns)>;
  bool any(const Tried& tried, const Found& found);

 private:
  enum class From { kNobody, kBorrowers, kOwnTenant, kBoth };

  const Job& job_of(size_t claim) const { return state_.jobs[claims_[claim].job]; }
  bool serve_rest(unsigned served, unsigned given);
  bool serve(size_t claim, unsigned served, unsigned given);
  bool like_an_earlier_one(unsigned served, size_t claim) const;
  std::vector<Victim> victims(const std::vector<size_t>& asked) const;
  bool fits_beside(size_t claim, int type, const std::vector<int>& left);
  bool leaves(size_t claim, int type, const std::vector<Victim>& victims, bool may_recharge);
  bool serves(const Turn& turn, From from);
  bool some_are_needless(const Turn& turn, From from);
  bool may_ask(size_t claim, From from, size_t candidate) const;
  From who_yields(size_t claim);

  const ClusterState& state_;
  const std::vector<Taken>& claims_;
  const std::vector<Candidate>& candidates_;
  const bool some_protected_;
  Rooms& rooms_;
  TurnQuotas& quotas_;
  int64_t& steps_;
  const int64_t steps_of_quotas_;  // how many steps one look at the quotas counts for
  std::vector<int> had_;           // by candidate: learners
  const Tried* tried_ = nullptr;
  const Found* found_ = nullptr;
  // The state after the turns in `turns_`:
  std::vector<int> left_;        // by candidate: learners
  std::vector<unsigned> which_;  // by type: the claims that got it, one bit for each
  std::vector<Turn> turns_;
};

}  // namespace dl::policy::in_turns
