// SPDX-License-Identifier: Apache-2.0
// Looks, before a job is submitted, whether its data are there, and its results and checkpoints can be where they are
// asked for: a job that waits for days should not fail then for a name that was mistyped.
#pragma once

#include <string>

#include "common/base/result.h"
#include "launcher/options/run_options.h"

namespace dl::submit {

// Runs `dl-data check`, for a few seconds at most. work_dir: where the job will start. The error is the user's,
// "--data:
// ..."; what could not be found out is none, and *note then says why. A value that cannot be read is none either, since
// read_request() has told of it.
Status check_places(const RunCommand& run, const std::string& work_dir, std::string* note);

}  // namespace dl::submit
