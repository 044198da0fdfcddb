// SPDX-License-Identifier: Apache-2.0
// Reads from `scontrol show job` what a waiting job asks for. Pure.
#pragma once

#include <string>

#include "launcher/ctl/wait_texts.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::ctl {

struct Asked {
  Amounts amounts;
  std::string partition;
};

// Of a range (NumNodes=4-7) the lower end counts.
Asked asked_of(const slurm_cli::JobText& job);

}  // namespace dl::ctl
