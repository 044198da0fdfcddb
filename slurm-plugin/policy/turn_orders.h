// SPDX-License-Identifier: Apache-2.0
// Whether claims can be served in turns with the victims of one set, as in_turns.h says. For the files of in_turns.h
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "slurm-plugin/policy/in_turns.h"
#include "slurm-plugin/policy/turn_rooms.h"

namespace dl::policy::in_turns {

struct Turn {
  size_t claim;
  bool within;                // jobs of its own tenant yield to it
  std::vector<size_t> asked;  // candidates
};

// The victims, and the types of the claims.
struct Tried {
  std::vector<size_t> chosen;  // candidates that are asked
  std::vector<int> target;     // by candidate: learners that it keeps
  std::vector<int> types;      // by claim
};

class Orders {
 public:
  // All of these must outlive this. *steps: counted down for whatever is looked at; nothing is found at 0.
  Orders(const ClusterState& state, const std::vector<Taken>& claims, const Candidates& candidates, bool some_protected,
         Rooms* rooms, TurnQuotas* quotas, int64_t* steps);

  // Looks for orders in which all claims are served and all victims yield, until `found` is content with one.
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
  const int64_t steps_of_quotas_;  // for one look at them
  std::vector<int> had_;           // by candidate: learners
  const Tried* tried_ = nullptr;
  const Found* found_ = nullptr;
  // After the turns that were tried so far:
  std::vector<int> left_;
  std::vector<unsigned> which_;  // by type: a bit for each claim
  std::vector<Turn> turns_;
};

}  // namespace dl::policy::in_turns
