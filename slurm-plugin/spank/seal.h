// SPDX-License-Identifier: Apache-2.0
// Jobs that may speak to their own nodes alone (network = "job" of their tenant in dl.toml). job_submit_dl.so says so
// in the environment that Slurm keeps for prolog and epilog, which users cannot reach; dl-seal makes cgroup and rules.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace dl {

// In `slurmd spank prolog` and `slurmd spank epilog`, processes of their own: they may run a program and wait. Nothing
// is done for jobs that nothing is asked of. An error only where not even a refusal could be noted, so that tasks would
// not know of it: the node is of no use for such jobs.
// `config`: dl.toml, by plugstack.conf; empty: where it is by default.
Status seal_job(int64_t job, const std::string& config);
void unseal_job(int64_t job);

// In a task's process, as root, before it becomes the user's: puts it behind the rules. An error fails the task.
Status enter_seal(int64_t job);

}  // namespace dl
