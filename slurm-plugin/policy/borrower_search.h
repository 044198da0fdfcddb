// SPDX-License-Identifier: Apache-2.0
// Finds the victims of one claim among all borrowers. What it finds is kept for the later claims of the decision.
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
  // All of these change as claims are served, and must outlive this. `takeable`: borrowers that may be asked now;
  // `later`: those still protected; both rising indexes of jobs. `planned`: by job, not 0 if it will be asked once jobs
  // that are still protected may be asked. *budget: steps of the exact search that are left.
  BorrowerSearch(const ClusterState& state, const Space& space, const SoFar& so_far, const std::vector<char>& planned,
                 const std::vector<int>& takeable, const std::vector<int>& later, int* budget)
      : state_(state),
        space_(space),
        so_far_(so_far),
        planned_(planned),
        takeable_(takeable),
        protected_(later),
        budget_(budget) {}

  // Borrowers that may be asked and are not planned, as rising indexes; kLast: also planned and protected ones.
  std::vector<int> all(Space::When when) const;
  // The victims that make room for the job on GPUs of the type; nothing if no set does. Among more than 512 borrowers
  // it may look only at those that lose least for each GPU: `exact` is false then.
  std::optional<VictimSet> find(const Job& job, int type, Space::When when);
  // To be called when there are new borrowers: forgets what earlier searches found.
  void changed() {
    no_set_.clear();
    ranked_.clear();
  }

 private:
  struct Ranked {
    bool known = false;
    int searches = 0;  // since they were ranked
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
  std::map<std::array<int, 3>, int> no_set_;  // the fewest learners for which no set of victims was found
  std::map<std::array<int, 3>, Ranked> ranked_;
};

}  // namespace dl::policy
