// SPDX-License-Identifier: Apache-2.0
// Looks, before a job is submitted, whether its data are there, and its results and checkpoints can be where they are
// asked for: a job that waits for days should not fail then for a name that was mistyped.
#pragma once

#include <string>

#include "common/base/result.h"
#include "launcher/options/run_options.h"

namespace dl::submit {

// Runs `dl-data check`, for 20 seconds at most for each place. work_dir: where the job will start. kInvalid with the
// option in front ("--data: ...") for what the user has to mend. What could not be found out is no error, and *note
// then says why; nor is a value that cannot be read, since read_request() has told of it.
Status check_places(const RunCommand& run, const std::string& work_dir, std::string* note);

}  // namespace dl::submit
