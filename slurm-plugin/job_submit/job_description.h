// SPDX-License-Identifier: Apache-2.0
// Converts between Slurm's job description and our types: the only file that reads or writes the fields of
// job_desc_msg_t.
#pragma once

#include "common/base/result.h"
#include "slurm-plugin/job_request.h"
#include "slurm-plugin/job_submit/modify_guard.h"
#include "slurm-plugin/job_submit/shape.h"
#include "slurm-plugin/job_submit/tenant_rules.h"
#include "slurm-plugin/slurm_abi.h"

namespace dl {

// Reads the --dl-* flags from spank_job_env, which sbatch, srun and salloc fill, completely whatever --export says. The
// user may have forged its content.
Result<JobRequest> read_request(const job_desc_msg_t& job);
// Sets the DL_* variables in a batch job's environment to exactly this request, whatever --export, --export-file,
// Slurm's own variables or a REST client have put there. Returns a sentence for the user on each variable that was
// overwritten or removed.
std::vector<std::string> align_environment(const JobRequest& request, job_desc_msg_t* job);

// Slurm's own options. NULL and NO_VAL mean "not given".
Submission read_submission(const job_desc_msg_t& job);

// All strings come from Slurm's allocator.
void write_shape(const Shape& shape, job_desc_msg_t* job);
void write_ruling(const Ruling& ruling, job_desc_msg_t* job);
// Sets the tier's QOS or partition, unless the user named one.
void move_to_tier(const TierTarget& target, job_desc_msg_t* job);

// Tells prolog and epilog, by the job's spank_job_env, whether the job is to be sealed (network = "job"). Overwrites
// what the user has put there.
void write_network(bool job_alone, job_desc_msg_t* job);
// Whether slurmd runs the prolog when a job gets its nodes (PrologFlags=Alloc or Contain). True if that cannot be
// known, in a program that has read no slurm.conf.
bool prolog_runs_at_allocation();

// In a federation Slurm may start a job in another cluster than the one that shapes and charges it, unless --clusters
// names this one alone. kUnsupported then.
Status check_stays_here(const job_desc_msg_t& job);

// What an update would change.
Change read_change(const job_desc_msg_t& job);

// The default account of a user, from slurmctld's copy of slurmdbd's data; empty if the user has none, or without
// slurmdbd. Found as Slurm's own job_submit/lua does it: a lookup in memory, under a lock of slurmctld's.
std::string default_account(uint32_t uid);

}  // namespace dl
