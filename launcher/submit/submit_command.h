// SPDX-License-Identifier: Apache-2.0
// dlrun --submit, from the parsed command line to what the user reads.
#pragma once

#include "launcher/options/run_options.h"

namespace dl::submit {

// True if --submit has no effect, so that the command runs here: inside a job, or without sbatch in PATH. Then *note
// says why, or stays empty.
bool runs_here(const RunCommand& run, std::string* note);

// Writes the script, shows it on standard error, submits it, and prints "Submitted batch job N" like sbatch, or JSON.
// With --dry-run only prints the script. Returns the exit status: 0; 2 for a wrong request; 71 if it was not submitted.
int submit_command(const RunCommand& run);

}  // namespace dl::submit
