// SPDX-License-Identifier: Apache-2.0
// dlrun --submit, from the parsed command line to what the user reads.
#pragma once

#include "launcher/options/run_options.h"

namespace dl::submit {

// Whether the command runs here, as without --submit: in a job, or where there is no sbatch. *note (may stay empty)
// tells why.
bool runs_here(const RunCommand& run, std::string* note);

// Writes the script, shows it (standard error), submits it and prints as sbatch does "Submitted batch job N", or JSON.
// With --dry-run only prints the script. Returns the exit status: 0, 2 for a request that is wrong, 71 if it was not
// submitted.
int submit_command(const RunCommand& run);

}  // namespace dl::submit
