// SPDX-License-Identifier: Apache-2.0
// Asks Slurm's commands why a job waits.
#pragma once

#include "common/base/result.h"
#include "launcher/ctl/wait_why.h"

namespace dl::ctl {

// Of an array with several records it looks at the first that waits, else at the first. kNotFound if Slurm does not
// know the job. What cannot be asked (sprio without priority/multifactor, limits without slurmdbd) stays empty. Blocks.
Result<WaitTexts> look_at_wait(const std::string& job_id);

}  // namespace dl::ctl
