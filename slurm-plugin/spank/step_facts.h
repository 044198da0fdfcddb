// SPDX-License-Identifier: Apache-2.0
// Facts about a step that can be computed from text and numbers alone. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace dl {

// The value of --dl-learners on a command line, or empty. srun needs it before Slurm parses the options. Both
// "--dl-learners=N" and "--dl-learners N" are found, up to a "--"; the last one counts. `line`: arguments, each ended
// by a NUL.
std::string learners_on_command_line(const std::string& line);

// Whether a command line has an option such as "--mem-per-gpu", with or without "=VALUE", before a "--".
bool has_option(const std::string& line, const std::string& option);
// Whether the #SBATCH lines of a batch script have such an option; false for a text that does not begin with "#!".
bool script_has_option(const std::string& script, const std::string& option);

// The host of rank 0 in a list of nodes: "node[03-05,9],x" -> "node03". Empty if the list is malformed.
std::string first_host(const std::string& node_list);

// The place of a task among the tasks of the step that have the same number on their node, and how many those are.
// `tasks_per_node` is Slurm's list of the tasks on each of the nodes: "2(x3),1". 0 of 0 if it is malformed.
std::pair<int, int> place_across_nodes(const std::string& tasks_per_node, int num_nodes, int node_rank, int local_rank);

// A port for rank 0, outside the range of ephemeral ports, that all tasks of a step compute without asking one another.
// Two steps on one node get different ports unless 7 * job + step agree modulo 16,000.
int rendezvous_port(uint32_t job_id, uint32_t step_id);

}  // namespace dl
