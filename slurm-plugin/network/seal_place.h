// SPDX-License-Identifier: Apache-2.0
// The paths of the file in which dl-seal notes whether it could seal a job, and of the cgroup that it makes for the
// job. Both contain the number of the network namespace, so that several nodes of a test cluster on one machine do not
// share them.
#pragma once

#include <cstdint>
#include <string>

namespace dl::network {

constexpr const char* kNoteFolder = "/run/slurm-dl";

// The note holds "sealed CGROUP" or "refused WHY". Without this file the job is not sealed on this node.
std::string note_of(int64_t job);

// The path is relative to the mount point of the hierarchy of version 2.
std::string seal_cgroup(int64_t job);

}  // namespace dl::network
