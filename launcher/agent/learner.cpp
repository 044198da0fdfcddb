// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/learner.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "frameworks/learner_environment.h"
#include "launcher/agent/gpu_sampler.h"

extern char** environ;

namespace dl::agent {

namespace {

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// Leaves the learner only its own run's GPUs; other runs of the job have the rest. Each vendor's variable lists the
// same GPUs in the same order.
void narrow_gpus(const std::vector<int>& positions, Environment* environment) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                           "ZE_AFFINITY_MASK"}) {
    const auto found = environment->find(name);
    if (found != environment->end()) found->second = chosen_gpus(found->second, positions);
  }
}

// Which share of the node's CPUs the learner gets: its number on the node, and the number of shares. If other runs of
// the job have GPUs on the node, shares are counted by GPUs, so that no two learners get the same one.
std::pair<int, int> place_on_node(const protocol::Start& start) {
  const LearnerContext& its = start.context;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const auto first = static_cast<size_t>(its.local_rank) * static_cast<size_t>(std::max(0, its.gpus_per_learner));
  if (!start.narrowed || its.gpus_per_learner <= 0 || visible == nullptr || first >= start.gpus.size())
    return {its.local_rank, its.local_world_size};
  const int all = static_cast<int>(split(visible, ',').size());
  const int number = start.gpus[first] / its.gpus_per_learner;
  return {number, std::max(number + 1, all / its.gpus_per_learner)};
}

std::vector<std::string> as_list(const Environment& environment) {
  std::vector<std::string> list;
  list.reserve(environment.size());
  for (const auto& [name, value] : environment) {
    list.push_back(name);
    list.back().append("=").append(value);
  }
  return list;
}

}  // namespace

Result<std::vector<std::string>> bound_command(const protocol::Start& start, std::vector<std::string> command) {
  if (start.bind.empty()) return command;
  DL_TRY_ASSIGN(const std::string self, own_program());
  auto program = program_beside(self, "dl-bind", "bind");
  if (!program) return std::move(program).error().with_context("--bind");
  const LearnerContext& its = start.context;
  const VisibleGpus visible = visible_gpus(start.gpus, start.narrowed);
  const LearnerGpus gpus = gpus_of_learner(visible.get(), its.local_rank, its.local_world_size, its.gpus_per_learner);
  const char* cpus = std::getenv("SLURM_CPUS_ON_NODE");
  const std::pair<int, int> place = place_on_node(start);
  std::string names;
  for (const std::string& name : gpus.names) names.append(names.empty() ? "" : ",").append(name);
  std::vector<std::string> argv = {*program,
                                   start.bind,
                                   std::to_string(place.first),
                                   std::to_string(place.second),
                                   cpus != nullptr && parse_int(cpus, 0, INT_MAX) ? cpus : "0",
                                   names,
                                   "--"};
  argv.insert(argv.end(), std::make_move_iterator(command.begin()), std::make_move_iterator(command.end()));
  return argv;
}

Result<Environment> learner_environment(const protocol::Start& start, const std::string& progress_path) {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr) environment[std::string(*entry, static_cast<size_t>(equals - *entry))] = equals + 1;
  }
  if (start.narrowed) narrow_gpus(start.gpus, &environment);
  Environment known = start.forced;
  if (!progress_path.empty()) known.emplace(env::kProgress, progress_path);
  if (!start.values.empty()) known.emplace(env::kMetricsFile, start.values);
  LearnerRecipe recipe;
  recipe.version = &start.environment;
  recipe.families = &start.families;
  recipe.python_folder =
      start.container.image.empty() ? installed_python_folder() : image::python_folder(start.context.job_dir);
  recipe.piped = true;
  recipe.known = &known;
  DL_TRY(compose(recipe, start.context, &environment));
  return environment;
}

std::vector<std::string> learner_argv(const protocol::Start& start) {
  if (start.activate.empty()) return start.command;
  std::vector<std::string> argv = {
      "/bin/sh", "-c",
      start.activate +
          "\nstatus=$?; [ $status -eq 0 ] || { echo \"dl-agent: activating the framework failed ($status)\" "
          ">&2; exit 126; }\nexec \"$@\"",
      "sh"};
  argv.insert(argv.end(), start.command.begin(), start.command.end());
  return argv;
}

Result<pid_t> start_learner(const protocol::Start& start, const std::string& progress_path, int output_fd) {
  SpawnOptions options;
  options.argv = learner_argv(start);
  DL_TRY_ASSIGN(Environment environment, learner_environment(start, progress_path));
  if (!start.container.image.empty()) {
    image::Container container = start.container;
    if (!progress_path.empty()) container.binds.push_back(folder_of(progress_path));
    const image::LearnerCommand command{options.argv, start.context.work_dir, start.context.gpus_per_learner > 0};
    DL_TRY_ASSIGN(options.argv, image::in_container(container, command, &environment));
  }
  // The binding also goes around a container: what is started in the container inherits it.
  DL_TRY_ASSIGN(options.argv, bound_command(start, std::move(options.argv)));
  options.environment = as_list(environment);
  options.work_dir = start.context.work_dir;
  // Learner 0 reads dlrun's standard input; an agent that was not given it has /dev/null.
  if (start.context.rank == 0) options.stdin_fd = STDIN_FILENO;
  options.stdout_fd = output_fd;
  options.stderr_fd = output_fd;
  options.new_process_group = true;
  options.parent_death_signal = SIGKILL;
  options.ignored_signals = {SIGUSR2};
  // Slurm's SIGTERM may reach all processes of a job step. A learner that serves ignores it, since others need it to
  // save.
  if (start.serves) options.ignored_signals.push_back(SIGTERM);
  return spawn_process(options);
}

}  // namespace dl::agent
