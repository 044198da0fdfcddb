// SPDX-License-Identifier: Apache-2.0
// Looks at submission, as the user, whether the places are there that --dl-data, --dl-results and objects= of
// --dl-checkpoint name: files and folders, remotes in the user's configuration of rclone, names of the site's
// catalogue. Starts no program and asks no server. No Slurm in it.
#pragma once

#include <string>

#include "common/base/result.h"
#include "slurm-plugin/job_request.h"

namespace dl {

struct PlacesCheck {
  std::string config;           // path of dl.toml
  bool own_environment = true;  // the job will have the user, environment and configuration of rclone of this process
};

// kNotFound, kDenied, kExists or kInvalid: "--dl-data: 'PLACE' ...". A relative path may mean another place in the job
// (--chdir), so nothing is said of it, and neither of a name where this host has no dl.toml that can be read.
Status check_places(const JobRequest& request, const PlacesCheck& how);

}  // namespace dl
