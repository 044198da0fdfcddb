// SPDX-License-Identifier: Apache-2.0
// The learner's side of the agent: what it finds in its environment, and how it is started.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/process/child_process.h"
#include "frameworks/families.h"
#include "launcher/protocol/control_protocol.h"

namespace dl::agent {

// The environment of a learner: what the agent inherited, less what is between dlrun and its agents, with the families
// added (what the user set stays) and the progress page's path.
Result<Environment> learner_environment(const supervise::Start& start, const std::string& progress_path);

// The argument vector: the command, under sh if the framework has to be activated first.
std::vector<std::string> learner_argv(const supervise::Start& start);

// The same behind dl-bind, where learners are bound to CPUs (Start::bind). kNotFound if that is not installed.
Result<std::vector<std::string>> bound_command(const supervise::Start& start, std::vector<std::string> command);

// Starts it, in its container if it has one: own process group, gone with us (SIGKILL), SIGUSR2 ignored (Slurm's
// --signal may reach all processes of a step, and its default action is to kill). Both outputs go to output_fd.
Result<pid_t> start_learner(const supervise::Start& start, const std::string& progress_path, int output_fd);

}  // namespace dl::agent
