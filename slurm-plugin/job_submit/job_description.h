// SPDX-License-Identifier: Apache-2.0
// Converts between Slurm's job description and our types. No other file reads or writes the fields of job_desc_msg_t.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "slurm-plugin/job_request.h"
#include "slurm-plugin/job_submit/modify_guard.h"
#include "slurm-plugin/job_submit/shape.h"
#include "slurm-plugin/job_submit/tenant_rules.h"
#include "slurm-plugin/slurm_abi.h"

namespace dl {

// Reads the --dl-* flags from spank_job_env. sbatch, srun and salloc fill it with all flags, whatever --export says.
// The user may have forged its content.
Result<JobRequest> read_request(const job_desc_msg_t& job);
// Makes the DL_* variables in a batch job's environment agree with this request, whatever --export, --export-file,
// Slurm's own variables or a REST client have put there. Returns a sentence for the user about each variable that was
// overwritten or emptied.
std::vector<std::string> align_environment(const JobRequest& request, job_desc_msg_t* job);

// Slurm's own options. NULL and NO_VAL mean "not given".
Submission read_submission(const job_desc_msg_t& job);

// All strings that it writes come from Slurm's allocator.
void write_shape(const Shape& shape, job_desc_msg_t* job);
void write_ruling(const Ruling& ruling, job_desc_msg_t* job);
// Sets the QOS or partition of the tier, unless the user named one.
void move_to_tier(const TierTarget& target, job_desc_msg_t* job);

// Writes into the job's spank_job_env, for prolog and epilog, whether the job is to be sealed (network = "job"). A
// value that the user has put there is overwritten.
void write_network(bool job_alone, job_desc_msg_t* job);
// Whether slurmd runs the prolog when a job gets its nodes (PrologFlags=Alloc or Contain). True in a program that has
// read no slurm.conf, since it cannot know.
bool prolog_runs_at_allocation();
// Whether this Slurm has QOS, which live in slurmdbd. True in a program that has read no slurm.conf.
bool knows_qos();
// The licences of slurm.conf. nullopt in a program that has read none.
std::optional<std::string> declared_licences();
// The path of the slurm.conf that slurmctld has read, to be asked for while the plugin is loaded; and when it was read,
// Unix time. Empty and 0 in a program that has read none.
std::string slurm_conf_path();
int64_t slurm_conf_read_at();

// In a federation Slurm may start a job in another cluster than the one that shapes and charges it, unless --clusters
// names this cluster alone. In that case the result is kUnsupported.
Status check_stays_here(const job_desc_msg_t& job);

// The changes that an update of a job asks for.
Change read_change(const job_desc_msg_t& job);

// The default account of a user, from slurmctld's copy of slurmdbd's data; empty if the user has none, or without
// slurmdbd. It is found as Slurm's own job_submit/lua finds it: a lookup in memory, under a lock of slurmctld.
std::string default_account(uint32_t uid);

}  // namespace dl
