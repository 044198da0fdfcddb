// SPDX-License-Identifier: Apache-2.0
// spank_dl.so's part in sealing jobs whose tenant has network = "job" in dl.toml: they may speak only to their own
// nodes. job_submit_dl.so marks such a job in the environment that Slurm keeps for prolog and epilog, which users
// cannot change; the program dl-seal makes cgroup and rules.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace dl {

// Called in `slurmd spank prolog` and `slurmd spank epilog`. These are processes of their own, so the functions may run
// a program and wait for it. They do nothing for jobs that are not marked. If the job cannot be sealed, dl-seal notes
// this, and the tasks fail later; seal_job() gives an error only if not even that note could be written. `config`: the
// path of dl.toml from plugstack.conf; empty: the default place.
Status seal_job(int64_t job, const std::string& config);
void unseal_job(int64_t job);

// Called in a task's process while it is still root: moves it into the sealed cgroup. An error fails the task.
Status enter_seal(int64_t job);

// Called in slurmstepd before it starts tasks. Beside tasks slurmstepd starts scripts with the user's rights, such as
// `srun --task-epilog`, and no hook runs in those. From now on each child of a sealed job's slurmstepd moves itself
// into the sealed cgroup as soon as it has been forked.
void seal_children(int64_t job);

}  // namespace dl
