// SPDX-License-Identifier: Apache-2.0
// Victims of one claim among all who borrow. What is found out about them serves all claims of one decision.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "slurm-plugin/policy/space.h"
#include "slurm-plugin/policy/victims.h"

namespace dl::policy {

class BorrowerSearch {
 public:
  // All of these change as claims are served, and must outlive it. `takeable`, `later`: borrowers that may be asked
  // now, and those that are protected, by job. `planned`: by job, whether it will be asked then.
  BorrowerSearch(const ClusterState& state, const Space& space, const SoFar& so_far, const std::vector<char>& planned,
                 const std::vector<int>& takeable, const std::vector<int>& later, int* budget)
      : state_(state),
        space_(space),
        so_far_(so_far),
        planned_(planned),
        takeable_(takeable),
        protected_(later),
        budget_(budget) {}

  // By job; kLast: with those that are protected for a while yet.
  std::vector<int> all(Space::When when) const;
  std::optional<VictimSet> find(const Job& job, int type, Space::When when);
  // There are more borrowers than there were.
  void changed() {
    no_set_.clear();
    ranked_.clear();
  }

 private:
  struct Ranked {
    bool known = false;
    std::vector<int> jobs;
  };
  Ranked& ranked(int type, int size, Space::When when);
  std::optional<VictimSet> search(const Job& job, int type, Space::When when);
  void drop_gone(std::vector<int>* jobs) const;

  const ClusterState& state_;
  const Space& space_;
  const SoFar& so_far_;
  const std::vector<char>& planned_;
  const std::vector<int>& takeable_;
  const std::vector<int>& protected_;
  int* budget_;
  // Both by type, size of a learner, and whether protected ones are among them.
  std::map<std::array<int, 3>, int> no_set_;  // learners that no set of borrowers makes room for, the fewest
  std::map<std::array<int, 3>, Ranked> ranked_;
};

}  // namespace dl::policy
