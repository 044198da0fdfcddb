// SPDX-License-Identifier: Apache-2.0
// Paths with placeholders for names of the job, like those of sbatch's --output: "ck-%j", "~/runs/%x". Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace dl {

// What replaces the placeholders. A path with a placeholder whose name is empty is refused.
struct PathNames {
  std::string job;    // %j: "12"; for an element of a job array "12_3"
  std::string array;  // %A: "12"; the same as %j for a job that is not in an array
  std::string index;  // %a: "3", the index in the job array
  std::string name;   // %x; a slash in it becomes "_"
  std::string user;   // %u
  std::string home;   // replaces a leading ~; an absolute path
};

// kInvalid if the path holds something that is never expanded: another letter behind %, "$" or "`", "~user". The error
// names it, and what is allowed.
Status check_path_pattern(std::string_view path);
// The path with its placeholders replaced; %% becomes %, and a width fills numbers with zeros (%4a: 0003). kInvalid as
// above, or if a name is empty that the path needs.
Result<std::string> expand_path(std::string_view path, const PathNames& names);
// True if the path has a placeholder with one of these letters. "ja" finds out whether jobs and elements of an array
// get different paths.
bool path_holds(std::string_view path, std::string_view letters);

// The names of the job that this process belongs to, from the SLURM_* variables. `variable` returns the value of a
// variable, or an empty text. Outside Slurm only user and home are set.
PathNames names_in_environment(const std::function<std::string(const char*)>& variable);
// Sets job, array and index from "12_3" or "12".
void name_job(const std::string& id, PathNames* names);

}  // namespace dl
