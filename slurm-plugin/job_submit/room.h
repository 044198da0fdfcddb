// SPDX-License-Identifier: Apache-2.0
// Whether the cluster has room for a job at all, as far as dl.toml says what there is. Pure.
#pragma once

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/job_request.h"

namespace dl {

// kConflict if all nodes together have GPUs for fewer learners than the job needs: Slurm would let it wait for ever. OK
// where [nodes.counts] is not set, and for jobs without --dl-learners or without GPUs.
Status check_room(const JobRequest& request, const SiteConfig& site);

}  // namespace dl
