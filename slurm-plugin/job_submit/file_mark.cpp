// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/file_mark.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

namespace dl {

std::string file_mark(const std::string& path, int64_t* changed_s) {
  struct stat info {};
  const bool there = ::stat(path.c_str(), &info) == 0;
  struct stat link {};
  if (changed_s != nullptr)
    *changed_s = there && ::lstat(path.c_str(), &link) == 0 ? std::max(info.st_ctim.tv_sec, link.st_ctim.tv_sec) : 0;
  if (!there) return path + " -\n";
  return fmt::format("{} {} {} {} {}.{} {}.{}\n", path, info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
}

}  // namespace dl
