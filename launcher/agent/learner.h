// SPDX-License-Identifier: Apache-2.0
// The start of a learner: its environment and its command.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/process/child_process.h"
#include "frameworks/families.h"
#include "launcher/protocol/control_protocol.h"

namespace dl::agent {

// The environment of a learner, composed from the agent's own as frameworks/learner_environment.h says, with the path
// of the progress page. If the learner shares its node's GPUs with other runs of the job, the variables that list
// visible GPUs are narrowed to its own run's. kNotFound for an unknown family.
Result<Environment> learner_environment(const protocol::Start& start, const std::string& progress_path);

// The argument vector: the command, run by sh if the framework has to be activated first.
std::vector<std::string> learner_argv(const protocol::Start& start);

// The command run by dl-bind if learners are bound to CPUs (Start::bind), else unchanged. kNotFound if dl-bind is
// missing.
Result<std::vector<std::string>> bound_command(const protocol::Start& start, std::vector<std::string> command);

// Starts the learner, in its container if it has one: in a process group of its own, killed by the kernel when the
// agent dies, with SIGUSR2 ignored (Slurm's --signal may reach all processes of a job step, and would kill it).
// Standard output and error go to output_fd.
Result<pid_t> start_learner(const protocol::Start& start, const std::string& progress_path, int output_fd);

}  // namespace dl::agent
