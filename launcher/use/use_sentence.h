// SPDX-License-Identifier: Apache-2.0
// What a run has used of what it had, as numbers and as one sentence for people, with one suggestion that the numbers
// support, or none. What was not measured is said, and is never taken for 0. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/use/phases.h"

namespace dl::use {

// Of all attempts of one dlrun. None: not measured, or not known.
struct Facts {
  int gpus = 0;  // that the learners have
  // Of them, those whose use is known: in the newest attempt in which that of any was.
  int gpus_measured = 0;
  std::optional<double> gpu_share;                            // of the time, in which a kernel ran: 0 to 1
  std::array<std::optional<double>, kPhases> gpu_share_in{};  // the same in each phase
  std::optional<double> sm_share;    // the mean share of the multiprocessors (SMs) of a GPU that were busy: 0 to 1
  std::optional<double> joules;      // of the measured GPUs
  std::optional<double> gpu_memory;  // bytes in use on all measured GPUs, the most that was seen
  int cpus = 0;                      // that the learners have; 0: unknown
  bool asked = false;                // the job has asked for them; false: they are the machine's
  // The second: mean; the third: the highest sum of what all learners told last.
  std::optional<double> cpu_seconds, cpus_used, most_cpus_used;
  std::array<std::optional<double>, kPhases> cpus_used_in{};
  std::optional<double> memory;         // bytes, the most that was seen of all learners at one time
  std::optional<double> memory_asked;   // bytes, of the whole job
  std::optional<double> read, written;  // bytes
  PerPhase seconds{};
};

// "used 31 % of 4 GPUs, 5.2 of 8 CPUs, 2.1 of 64 GiB; 12 % of the time saving: SUGGESTION"
std::string sentence(const Facts& facts);
// The suggestion alone: the first row of a table that applies. Empty: none does, or the run was too short to judge.
std::string suggestion(const Facts& facts);
constexpr double kLeastSeconds = 300;  // of learners that run: shorter runs get no suggestion

// What events.jsonl keeps (dl-job-directory(5)): numbers by name, without those that were not measured.
std::map<std::string, double> numbers(const Facts& facts);
// Of a single learner: what was measured of it, and nothing that is the same for all.
std::map<std::string, double> learner_numbers(const Facts& facts);

}  // namespace dl::use
