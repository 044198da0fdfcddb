// SPDX-License-Identifier: Apache-2.0
// Paths with placeholders for names of the job, like those of sbatch's --output: "ck-%j", "~/runs/%x". Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace dl {

// What replaces the placeholders. Where a name is empty, a path with its placeholder is refused.
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
// The path with its placeholders replaced; %% becomes %, and a width fills numbers with zeros (%4a: 0003). kInvalid as
// above, or if this job has no such name.
Result<std::string> expand_path(std::string_view path, const PathNames& names);
// True if the path has a placeholder with one of these letters ("ja": whether jobs and elements of an array get
// different paths).
bool path_holds(std::string_view path, std::string_view letters);

// The names of the job that this process belongs to, from the SLURM_* variables; `variable` gives the value of one, or
// an empty text. Outside Slurm only user and home are set.
PathNames names_in_environment(const std::function<std::string(const char*)>& variable);
// Sets job, array and index from "12_3" or "12".
void name_job(const std::string& id, PathNames* names);

}  // namespace dl
