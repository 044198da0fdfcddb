// SPDX-License-Identifier: Apache-2.0
// Where dl-seal notes what became of a job, and which cgroup it makes for it. Several nodes on one machine (each in a
// network namespace of its own) do not meet there.
#pragma once

#include <cstdint>
#include <string>

namespace dl::network {

constexpr const char* kNoteFolder = "/run/slurm-dl";

// "sealed CGROUP" or "refused WHY"; no file: nothing is asked of this job here.
std::string note_of(int64_t job);

// Relative to the mount point of the hierarchy of version 2.
std::string seal_cgroup(int64_t job);

}  // namespace dl::network
