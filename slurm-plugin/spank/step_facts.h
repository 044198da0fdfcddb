// SPDX-License-Identifier: Apache-2.0
// Facts about a step that can be computed from text and numbers alone. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace dl {

// The value of --dl-learners on a command line, or empty: srun must know it before it reads its options. Looks at
// "--dl-learners=N" and "--dl-learners N" up to a "--"; the last one counts. `line`: arguments, each ended by a NUL.
std::string learners_on_command_line(const std::string& line);

// Whether a command line has an option such as "--mem-per-gpu", with "=VALUE" or VALUE as the next word, before a "--".
bool has_option(const std::string& line, const std::string& option);
// Whether the #SBATCH lines of a batch script have such an option; false for a text that does not begin with "#!".
bool script_has_option(const std::string& script, const std::string& option);

// "node[03-05,9],x" -> "node03": the host of rank 0, as Slurm writes lists of nodes. Empty if the list is malformed.
std::string first_host(const std::string& node_list);

// A port for rank 0 that all tasks of a step compute alike, outside the range of ephemeral ports. Two steps on one node
// get different ports unless 7 * job + step agree modulo 16,000.
int rendezvous_port(uint32_t job_id, uint32_t step_id);

}  // namespace dl
