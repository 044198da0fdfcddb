// SPDX-License-Identifier: Apache-2.0
// Ids of jobs. The elements of a job array that have not started are one record of Slurm's, and have no job ids of
// their own until they are split off. Here each element always has an id made from its index in the array, which is
// larger than any of Slurm's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dl::policy {

// Element `task` of the job array `array`, both as Slurm numbers them: at least 1, and at least 0 below 2^30.
int64_t element_id(int64_t array, int64_t task);
bool is_element(int64_t id);
// The array of an element; any other id unchanged.
int64_t array_of(int64_t id);

// "17"; of an element "17_3", as Slurm's commands take it.
std::string job_name(int64_t id);
// The same read back; nothing for any other text.
std::optional<int64_t> parse_job_name(std::string_view text);

}  // namespace dl::policy
