// SPDX-License-Identifier: Apache-2.0
// The job that dlrun submits to have more nodes: a companion, of the same user, on whole nodes. Slurm lets no running
// job grow whose nodes have GPUs, so its learners run in two jobs then. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::supervise {

// The name of the companions that this dlrun of the job submits: "dl-companion-12", "dl-companion-12.2" of its second.
std::string companion_name(const std::string& job_id, int run);

// Of a companion for nodes that dlpolicyd offered, which is in the borrow tier: what dl.toml gives to that tier; empty:
// as the job.
struct OfferedNodes {
  std::string partition, qos;
};

// Options of sbatch for a companion of `nodes` nodes, each like those that the job has. job: as scontrol shows it now.
std::vector<std::string> companion_options(const slurm_cli::JobText& job, const plan::LaunchPlan& plan, int nodes,
                                           const std::string& name, int64_t now_s,
                                           const std::optional<OfferedNodes>& offered = {});

// The batch script of a companion. It ends, and the companion with it, once the job has ended or has gone back into the
// queue, whatever became of dlrun.
std::string companion_script(const slurm_cli::JobText& job);

// What scontrol shows of a companion.
struct CompanionState {
  enum class Kind {
    kWaits,
    kRuns,
    kEnds,  // Slurm ends it, or its GPUs are claimed: its learners have until deadline_ms, if that is known
    kOver,
  };
  Kind kind = Kind::kWaits;
  std::string why;                     // of kEnds and kOver, for people
  std::optional<int64_t> deadline_ms;  // Unix time
  std::vector<plan::Node> nodes;       // of kRuns
};
CompanionState companion_state(const slurm_cli::JobText& companion);

}  // namespace dl::supervise
