// SPDX-License-Identifier: Apache-2.0
// A signal that a job's user wants before the time limit, by sbatch --signal. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl {

// Set by job_submit_dl.so in the environment of a job with --dl-* flags whose user has asked for a signal: "B:USR1@60".
constexpr const char* kOwnSignalEnv = "DL_OWN_SIGNAL";

struct OwnSignal {
  int number = 0;
  int lead_s = 60;         // before the time limit; Slurm sends it up to half a minute earlier
  bool to_script = false;  // B: to the batch script's shell alone, else to the steps
};

// As sbatch takes it: [{R|B|RB}:]SIGNAL[@SECONDS], the signal by number or name. None for anything else.
std::optional<OwnSignal> parse_own_signal(std::string_view text);
std::string format_own_signal(const OwnSignal& signal);
// Of the #SBATCH lines of a batch script; the last one counts, as it does for sbatch.
std::optional<OwnSignal> own_signal_of_script(std::string_view script);
// Whether a process that does nothing about this signal is ended by it.
bool ends_a_process(int signal);

}  // namespace dl
