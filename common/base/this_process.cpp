// SPDX-License-Identifier: Apache-2.0
#include "common/base/this_process.h"

#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace dl {

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string node_name() {
  if (std::string slurm = environment_value("SLURMD_NODENAME"); !slurm.empty()) return slurm;
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

Result<std::string> own_program() {
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0) return errno_error("find this program", errno);
  return std::string(self, static_cast<size_t>(n));
}

Result<std::string> program_beside(const std::string& program, const std::string& name, const std::string& room) {
  const std::string folder = program.substr(0, program.rfind('/'));
  for (const std::string& place : {folder + "/" + name, folder + "/../" + room + "/" + name})
    if (::access(place.c_str(), X_OK) == 0) return place;
  return Error{Errc::kNotFound, name + " was not found in " + folder +
                                    "; install slurm-dl as a whole, so that its programs lie together"};
}

}  // namespace dl
