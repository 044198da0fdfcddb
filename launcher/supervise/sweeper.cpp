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
  if (nodes_.any_lost()) return done();
  const std::vector<std::string> names = nodes_.names();
  const std::string count = std::to_string(names.size());
  slurm_->run_step({"srun", "--mpi=none", "--job-name=sweep", "--nodes=" + count, "--ntasks=" + count,
                    "--ntasks-per-node=1", "--nodelist=" + compress_hostlist(names), "--overlap", "--input=none",
                    "--export=ALL", "--quiet", agent_path_, "--sweep", mark},
                   std::chrono::seconds(20), std::move(done));
}

}  // namespace dl::supervise
