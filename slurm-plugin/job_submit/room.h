// SPDX-License-Identifier: Apache-2.0
// Refuses jobs that need more GPUs than the whole cluster has according to dl.toml or, where that does not say, to
// slurm.conf. Pure.
#pragma once

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/job_request.h"
#include "slurm-plugin/job_submit/node_lines.h"

namespace dl {

// kConflict if the GPUs of all nodes together suffice for fewer learners than the job needs; Slurm would let such a job
// wait for ever. OK if dl.toml has no [nodes.counts], and for jobs without --dl-learners or without GPUs.
Status check_room(const JobRequest& request, const SiteConfig& site);

// The same by the NodeName lines of slurm.conf. OK if they do not tell what GPUs there are.
Status check_room(const JobRequest& request, const NodeLines& lines);

}  // namespace dl
