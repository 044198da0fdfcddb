// SPDX-License-Identifier: Apache-2.0
// Between Slurm's job description and our types: the only file that reads or writes its fields.
#pragma once

#include "common/base/result.h"
#include "slurm-plugin/job_request.h"
#include "slurm-plugin/job_submit/modify_guard.h"
#include "slurm-plugin/job_submit/shape.h"
#include "slurm-plugin/job_submit/tenant_rules.h"
#include "slurm-plugin/slurm_abi.h"

namespace dl {

// The --dl-* flags, from spank_job_env: it is filled by sbatch, srun and salloc, and complete whatever --export says.
// Its content is the user's, and may be forged.
Result<JobRequest> read_request(const job_desc_msg_t& job);
// Has a batch job find that request in its DL_* variables, and no other, whatever --export, --export-file, a variable
// of Slurm's own or a REST client has put there. Returns a sentence for the user on each variable that does not count.
std::vector<std::string> align_environment(const JobRequest& request, job_desc_msg_t* job);

// Slurm's own options. NULL and NO_VAL mean "not given".
Submission read_submission(const job_desc_msg_t& job);

// All strings come from Slurm's allocator.
void write_shape(const Shape& shape, job_desc_msg_t* job);
void write_ruling(const Ruling& ruling, job_desc_msg_t* job);
// The tier's QOS or partition, unless the user named one.
void move_to_tier(const TierTarget& target, job_desc_msg_t* job);

// Whether the job is to be kept to its own nodes: told to prolog and epilog, which users cannot reach. What a user has
// put in that place is overwritten.
void write_network(bool job_alone, job_desc_msg_t* job);
// Whether slurmd runs the prolog when a job gets its nodes (PrologFlags), with what slurmctld knows of the job. True
// where that cannot be told: in a program that has no slurm.conf.
bool prolog_runs_at_allocation();

// In a federation Slurm may start a job in another cluster than the one that shapes and charges it, unless --clusters
// names this one alone. kUnsupported then.
Status check_stays_here(const job_desc_msg_t& job);

// What an update would change.
Change read_change(const job_desc_msg_t& job);

// The account of a user's jobs that name none, from what slurmctld holds of slurmdbd's users; empty if there is none,
// or no slurmdbd. As Slurm's own job_submit/lua finds it: a lookup in memory, under a lock of slurmctld's.
std::string default_account(uint32_t uid);

}  // namespace dl
