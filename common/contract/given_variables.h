// SPDX-License-Identifier: Apache-2.0
// What spank_dl.so has added to the environment of a plain srun task (MASTER_ADDR, OMP_NUM_THREADS, ...): the task
// hands it on in DL_GIVEN, so that what it starts in turn (dlrun, another srun, a job) does not take it for values of
// the user's, which stay. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dl {

// DL_GIVEN for a task whose environment was `before` and is `after`: the variables that were added.
std::string format_given(const std::map<std::string, std::string>& before,
                         const std::map<std::string, std::string>& after);
// Names and values in a DL_GIVEN, which the user may have changed.
std::vector<std::pair<std::string, std::string>> parse_given(const std::string& given);
// Removes DL_GIVEN, and what it names where that has its value still.
void take_back_given(std::map<std::string, std::string>* environment);

}  // namespace dl
