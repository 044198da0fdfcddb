// SPDX-License-Identifier: Apache-2.0
// Limits the CPUs and the memory that a job with GPUs asks for, for each of its GPUs, where the site wants that. A job
// that takes all CPUs or memory of a node with one GPU of it makes the others useless: nobody can lend or take them
// back. Pure.
#pragma once

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/job_submit/gpu_count.h"
#include "slurm-plugin/job_submit/shape.h"

namespace dl {

// kNoSpace: the job asks for more than [quota] max_cpus_per_gpu or max_memory_per_gpu allow. CPUs and memory are
// compared with all GPUs of the job together, as asked for: not what Slurm's defaults or its whole cores add. Jobs that
// take all GPUs of their nodes are not limited.
Status check_share(const Submission& given, const GpuCount& gpus, const SiteConfig& site);

}  // namespace dl
