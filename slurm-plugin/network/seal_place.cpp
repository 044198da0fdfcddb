// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/network/seal_place.h"

#include <fmt/core.h>
#include <sys/stat.h>

namespace dl::network {
namespace {

uint64_t this_network() {
  struct stat status {};
  return ::stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::string note_of(int64_t job) {
  return fmt::format("{}/network.{}.job_{}", kNoteFolder, this_network(), job);
}

std::string seal_cgroup(int64_t job) {
  return fmt::format("/slurm-dl/net_{}/job_{}", this_network(), job);
}

}  // namespace dl::network
