// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/sweeper.h"

#include <chrono>
#include <vector>

#include "common/base/hostlist.h"
#include "common/contract/env_names.h"
#include "common/process/descendants.h"
#include "launcher/protocol/progress_file.h"

namespace dl::supervise {

void Sweeper::sweep(const std::string& run_id, std::function<void()> done) {
  const std::string mark = std::string(env::kRunId) + "=" + run_id;
  if (!nodes_.plan().under_slurm) {
    sweep_marked(mark);
    protocol::remove_orphaned_pages();
    return done();
  }
  if (nodes_.any_own_lost()) return done();
  // Agents that were lost are on the job's own nodes: with one of a companion the whole companion counts as lost.
  std::vector<std::string> names;
  for (const plan::PlannedNode& node : nodes_.plan().nodes)
    if (node.companion.empty()) names.push_back(node.name);
  const std::string count = std::to_string(names.size());
  slurm_->run_step({"srun", "--mpi=none", "--job-name=sweep", "--nodes=" + count, "--ntasks=" + count,
                    "--ntasks-per-node=1", "--nodelist=" + compress_hostlist(names), "--overlap", "--input=none",
                    "--export=ALL", "--quiet", agent_path_, "--sweep", mark},
                   std::chrono::seconds(20), std::move(done));
}

}  // namespace dl::supervise
