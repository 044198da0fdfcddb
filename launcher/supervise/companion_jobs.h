// SPDX-License-Identifier: Apache-2.0
// The companions of the job, as their user sees them. Companions implements it with Slurm's commands, tests without.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/supervise/companion_job.h"

namespace dl::supervise {

class CompanionJobs {
 public:
  CompanionJobs() = default;
  virtual ~CompanionJobs() = default;
  CompanionJobs(const CompanionJobs&) = delete;
  CompanionJobs& operator=(const CompanionJobs&) = delete;

  // Submits one of so many nodes, each with what a node of `plan` has. offered: dlpolicyd said that the nodes are free;
  // if they are not any more, so that it still waits after a minute, that counts as its end. then: its id; not before
  // this has returned.
  virtual void submit(const plan::LaunchPlan& plan, int nodes, const std::optional<OfferedNodes>& offered,
                      std::function<void(const Result<std::string>&)> then) = 0;
  virtual bool submitting() const = 0;
  virtual const std::vector<std::string>& held() const = 0;  // ids of those that it has
  // To be called often: looks at each after a while, and sooner at one that waits.
  virtual void look(int64_t now_ms) = 0;
  virtual void look_soon() = 0;
  // Ends it. It is not looked at any more, but look() tries again until Slurm has ended it.
  virtual void give_back(const std::string& job) = 0;
  virtual void give_back_all() = 0;
};

}  // namespace dl::supervise
