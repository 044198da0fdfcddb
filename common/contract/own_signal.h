// SPDX-License-Identifier: Apache-2.0
// The signal that a user has asked for with sbatch --signal, to be sent before the time limit. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl {

// Set by job_submit_dl.so in the environment of a job with --dl-* flags whose user has asked for a signal: "B:USR1@60".
constexpr const char* kOwnSignalEnv = "DL_OWN_SIGNAL";

struct OwnSignal {
  int number = 0;
  int lead_s = 60;         // seconds before the time limit; Slurm sends the signal up to half a minute earlier
  bool to_script = false;  // B: only to the shell of the batch script; else to the job steps
};

// Reads sbatch's form [{R|B|RB}:]SIGNAL[@SECONDS]; the signal is a number or a name. None for anything else.
std::optional<OwnSignal> parse_own_signal(std::string_view text);
std::string format_own_signal(const OwnSignal& signal);
// The signal that the #SBATCH lines of a batch script ask for; the last line counts, as it does for sbatch.
std::optional<OwnSignal> own_signal_of_script(std::string_view script);
// Whether this signal ends a process that has no handler for it.
bool ends_a_process(int signal);

}  // namespace dl
