// SPDX-License-Identifier: Apache-2.0
// Compares what a job is in Slurm with what it should be, and returns the necessary change. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "slurm-plugin/observe/records.h"
#include "slurm-plugin/observe/slurm_client.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::policyd {

// The job as Slurm reports it.
struct Present {
  std::string licenses;
  std::string admin_comment;
  policy::JobLabel label;  // as read from admin_comment
  int64_t site_factor = 0;
  int64_t begin_s = 0;
  uint32_t min_nodes = 0, max_nodes = 0;  // 0: not known
  bool gated = false;                     // its begin time is a gate that dlpolicyd has set
};
Present present_of(const observe::JobRecord& record, const policy::JobLabel& label, bool gated);

// What should become of the begin time.
enum class Begin {
  kAny,      // it stays as it is
  kOpen,     // not behind a gate
  kOpenNow,  // as kOpen, even if the begin time was not set as a gate for this job but for other elements of its array
  kGated,    // behind a gate that ends gate_s from now
};

// The job as it should be. Members without a value stay as they are.
struct Target {
  std::optional<std::string> licenses;
  policy::JobLabel label;
  std::optional<int64_t> site_factor;
  bool unranked_will_do = false;  // a present site factor of 0 may stay instead of the wanted one
  Begin begin = Begin::kAny;
  int64_t gate_s = 0;     // only for kGated
  bool returned = false;  // it was requeued, and Slurm's delay of two minutes is cut short
  // Both change together. That of an elastic job changes if either differs, that of others only if max_nodes does.
  std::optional<uint32_t> min_nodes, max_nodes;
};

// The change; empty if there is none. If it changes the nodes of an elastic job, the label says so from then on. A gate
// is renewed when half of its time has passed, so that it does not open when a round takes long.
observe::JobUpdate diff(const Present& present, const Target& target, int64_t now_s);

}  // namespace dl::policyd
