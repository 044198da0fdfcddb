// SPDX-License-Identifier: Apache-2.0
// The folder of a job that `dlctl export --tensorboard` writes.
#pragma once

#include <string>

#include "common/base/result.h"
#include "launcher/ctl/export_runs.h"

namespace dl::ctl {

// Writes the runs into folder/JOB/: an event file in it, or one in attempt-A/ for each run of one attempt. An earlier
// export of the job is replaced, file by file. Returns folder/JOB. Nothing is written, and the error is a sentence for
// the user, if folder/JOB is there and holds anything that no export has written.
Result<std::string> write_event_files(const std::string& folder, const std::string& job, const ExportedJob& exported);

}  // namespace dl::ctl
