// SPDX-License-Identifier: Apache-2.0
// Between Slurm's job description and our types: the only file that reads or writes its fields.
#pragma once

#include "launcher/common/result.h"
#include "slurm-plugin/job_request.h"
#include "slurm-plugin/job_submit/shape.h"
#include "slurm-plugin/slurm_abi.h"

namespace dl {

// The --dl-* flags, from spank_job_env: it is filled by sbatch, srun and salloc, and complete whatever --export says.
// Its content is the user's, and may be forged.
Result<JobRequest> read_request(const job_desc_msg_t& job);

// Slurm's own options. NULL and NO_VAL mean "not given".
Submission read_submission(const job_desc_msg_t& job);

// All strings come from Slurm's allocator.
void write_shape(const Shape& shape, job_desc_msg_t* job);

}  // namespace dl
