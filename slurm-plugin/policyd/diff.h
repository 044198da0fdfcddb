// SPDX-License-Identifier: Apache-2.0
// What a job is in Slurm beside what it should be: the change that makes the one the other. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "slurm-plugin/observe/records.h"
#include "slurm-plugin/observe/slurm_client.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::policyd {

// As Slurm tells it.
struct Present {
  std::string licenses;
  std::string admin_comment;
  policy::JobLabel label;  // what could be read of that
  int64_t site_factor = 0;
  int64_t begin_s = 0;
  uint32_t max_nodes = 0;
  bool gated = false;  // its begin time is a gate of dlpolicyd's
};
Present present_of(const observe::JobRecord& record, const policy::JobLabel& label, bool gated);

// When it should begin at the earliest.
enum class Begin {
  kAny,      // as it stands
  kOpen,     // not behind a gate
  kOpenNow,  // the same, whatever its begin time is for: its siblings stay behind theirs
  kGated,    // closed for gate_s
};

// As it should be. Members without a value: as they are.
struct Target {
  std::optional<std::string> licenses;
  policy::JobLabel label;
  std::optional<int64_t> site_factor;
  bool unranked_will_do = false;  // a site factor of 0 is as good
  Begin begin = Begin::kAny;
  int64_t gate_s = 0;     // of kGated
  bool returned = false;  // from a requeue: Slurm's two minutes need not pass
  std::optional<uint32_t> max_nodes;
  bool exact_nodes = false;  // and where that changes, at least as many
};

// Empty if nothing has to change. A gate is renewed when half of its time is over, so that a slow moment does not let
// it pass.
observe::JobUpdate diff(const Present& present, const Target& target, int64_t now_s);

}  // namespace dl::policyd
