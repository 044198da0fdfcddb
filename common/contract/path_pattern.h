// SPDX-License-Identifier: Apache-2.0
// Paths of a job that hold its names, as those of sbatch's --output do: "ck-%j", "~/runs/%x". Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace dl {

// What stands for a job in paths. Empty: there is none, and a path that holds it is refused.
struct PathNames {
  std::string job;    // %j: "12", of an element of a job array "12_3"
  std::string array;  // %A: "12", also where there is no array
  std::string index;  // %a: "3"
  std::string name;   // %x; a slash in it becomes "_"
  std::string user;   // %u
  std::string home;   // ~ in front; an absolute path
};

// kInvalid for what is never expanded: another letter behind %, "$", "~user". The text names it, and what is allowed.
Status check_path_pattern(std::string_view path);
// The path with the names of this job in it; %% becomes %, and a width fills numbers with zeros (%4a: 0003). kInvalid
// as above, or where this job has no such name.
Result<std::string> expand_path(std::string_view path, const PathNames& names);
// True if one of these letters stands behind a % in it ("ja": jobs and elements of an array get different paths).
bool path_holds(std::string_view path, std::string_view letters);

// The names of the job that this process is in, by SLURM_* (variable: its value, or empty). Outside of Slurm: user and
// home alone.
PathNames names_in_environment(const std::function<std::string(const char*)>& variable);
// Of "12_3" or "12": job, array and index.
void name_job(const std::string& id, PathNames* names);

}  // namespace dl
