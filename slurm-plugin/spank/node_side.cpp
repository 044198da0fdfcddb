// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/spank/node_side.h"

#include <fmt/core.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstring>
#include <tuple>

#include "common/base/parse.h"
#include "common/contract/env_names.h"
#include "common/contract/given_variables.h"
#include "common/contract/path_pattern.h"
#include "common/site/site_config.h"
#include "frameworks/learner_environment.h"
#include "slurm-plugin/spank/step_facts.h"

namespace dl {
namespace {

constexpr size_t kMaxValue = 8192;  // longer values count as absent; values that we set are at most half as long

std::string get(spank_t spank, const char* name) {
  std::string value(kMaxValue, '\0');
  if (spank_getenv(spank, name, value.data(), static_cast<int>(value.size())) != ESPANK_SUCCESS) return "";
  value.resize(std::strlen(value.c_str()));
  return value;
}

// A number that Slurm itself put into the task's environment. It is checked, because a user's own task may have changed
// it.
Result<int> number(spank_t spank, const char* name, int64_t min) {
  const std::string text = get(spank, name);
  auto value = parse_int(text, min, INT_MAX);
  if (!value) return std::move(value).error().with_context(name);
  return static_cast<int>(*value);
}

}  // namespace

void NodeSide::option(size_t index, const char* value) {
  if (index >= kOptionCount) return;
  seen_[index] = true;
  faults_[index].reset();
  if (Status read = read_option(kOptions[index], abi::text_of(value), &request_); !read)
    faults_[index] = std::move(read).error();
}

// With --export=NONE, Slurm before 23.11 loses the flags on the way to the node. It keeps the copies of them that are
// meant for nested commands, so the flags are taken from these.
void NodeSide::inherit(spank_t spank) {
  for (size_t i = 0; i < kOptionCount; ++i) {
    if (seen_[i]) continue;
    const std::string value = get(spank, (kInheritedPrefix + slurm_option_env(kOptions[i])).c_str());
    if (!value.empty()) option(i, value.c_str());
  }
}

bool NodeSide::is_plain_step() const {
  return step_id_ != abi::kStepBatch && step_id_ != abi::kStepInteractive && step_id_ != abi::kStepExtern &&
         step_id_ != abi::kStepPending;
}

void NodeSide::prepare(spank_t spank) {
  (void)spank_unsetenv(spank, env::kNodeSide);  // dlrun would put the job back where it is still there
  // dlrun and dlctl in the job read the dl.toml that plugstack.conf names. On a host that gets plugstack.conf from
  // slurmctld, this variable may be the only way for them to find it.
  if (args_ && !args_->config.empty()) (void)spank_setenv(spank, env::kConfig, args_->config.c_str(), 0);
  collect(spank);
  prepared_ = true;
}

void NodeSide::collect(spank_t spank) {
  inherit(spank);
  for (auto& fault : faults_)
    if (fault && !fault_) fault_ = std::move(fault);
  if (request_.empty() && !fault_) return;
  if (!fault_ && !args_) fault_ = args_.error();
  if (!fault_)
    if (Status checked = check_request(request_); !checked) fault_ = std::move(checked).error();
  if (fault_) return;
  for (const auto& [name, value] : request_.environment)
    if (spank_setenv(spank, name.c_str(), value.c_str(), 1) != ESPANK_SUCCESS)
      fault_ = Error{Errc::kInternal, "environment variable " + name + " could not be set for the job", 0};
  // Steps that dlrun starts run its agents, which give the learners their environment.
  if (!fault_ && request_.framework && is_plain_step() && get(spank, env::kControl).empty())
    if (Status found = find_framework(); !found) fault_ = std::move(found).error();
}

// This runs as root, so it only reads files whose place the administrator chose, and none that the user's environment
// names.
Status NodeSide::find_framework() {
  const std::string path = args_->config.empty() ? default_site_config_path(false) : args_->config;
  auto site = load_site_config(path);
  if (!site) {
    // The fault is the administrator's, and must not fail the user's job.
    slurm_error("dl: %s; the catalogue is looked for where it is by default", site.error().text.c_str());
    site = parse_site_config("", path);
  }
  if (!site) return std::move(site).error();
  // A faulty entry of another framework must not fail the job either. slurmctld has already refused jobs whose
  // framework it did not find.
  std::vector<std::string> faults;
  const Catalogue catalogue = Catalogue::load_sound(site->catalogue, &faults);
  auto choice = catalogue.choose(*request_.framework);
  if (!choice && !faults.empty()) return Error{Errc::kInvalid, faults.front()}.with_context("--dl-framework");
  if (!choice) return std::move(choice).error().with_context("--dl-framework");
  framework_ = *choice->entry;
  version_environment_ = choice->environment();
  return {};
}

Status NodeSide::start_task(spank_t spank) {
  if (fault_) return *fault_;
  // An exception ended prepare(), most likely for lack of memory. Jobs without --dl-* flags go on.
  if (!prepared_ && !request_.empty())
    return Error{Errc::kInternal, "the --dl-* flags could not be prepared on this node; the reason is in slurmd's log",
                 0};
  // job_submit_dl.so asked Slurm to send SIGUSR2 before the time limit, for dlrun's agents. The signal would end a
  // program that has no handler for it, so it is ignored here; a program that has one installs it later.
  if (is_plain_step() && get(spank, env::kControl).empty() && !get(spank, kSignalEnv).empty())
    (void)std::signal(SIGUSR2, SIG_IGN);
  if (!framework_) return {};
  if (Status added = add_families(spank); !added)
    return std::move(added).error().with_context("the environment of --dl-framework=" + framework_->name);
  return {};
}

Result<CheckpointSpec> NodeSide::checkpoint(spank_t spank) const {
  CheckpointSpec spec = *request_.checkpoint;
  const PathNames names = names_in_environment([&](const char* name) { return get(spank, name); });
  if (Status expanded = expand_checkpoint(names, &spec); !expanded)
    return std::move(expanded).error().with_context("--dl-checkpoint");
  return spec;
}

Result<LearnerContext> NodeSide::context(spank_t spank) const {
  LearnerContext c;
  DL_TRY_ASSIGN(c.rank, number(spank, "SLURM_PROCID", 0));
  DL_TRY_ASSIGN(c.local_rank, number(spank, "SLURM_LOCALID", 0));
  DL_TRY_ASSIGN(c.node_rank, number(spank, "SLURM_NODEID", 0));
  uint32_t tasks = 1;
  uint32_t local_tasks = 1;
  uint32_t nodes = 1;
  uint32_t job_id = 0;
  uint32_t restarts = 0;
  uint32_t cpus = 0;
  (void)spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &tasks);
  (void)spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &local_tasks);
  (void)spank_get_item(spank, S_JOB_NNODES, &nodes);
  (void)spank_get_item(spank, S_JOB_ID, &job_id);
  (void)spank_get_item(spank, S_SLURM_RESTART_COUNT, &restarts);
  (void)spank_get_item(spank, S_STEP_CPUS_PER_TASK, &cpus);
  c.world_size = static_cast<int>(tasks);
  c.local_world_size = static_cast<int>(local_tasks);
  c.num_nodes = static_cast<int>(nodes);
  std::tie(c.cross_rank, c.cross_size) =
      place_across_nodes(get(spank, "SLURM_STEP_TASKS_PER_NODE"), c.num_nodes, c.node_rank, c.local_rank);
  c.node_name = get(spank, "SLURMD_NODENAME");
  c.restarts = static_cast<int>(restarts);
  c.attempt = c.restarts + 1;
  c.cpus_per_learner = static_cast<int>(cpus);
  c.gpus_per_learner = request_.gpus ? request_.gpus->count : 0;
  c.max_restarts = request_.restarts.value_or(0);
  c.job_id = std::to_string(job_id);
  c.job_name = get(spank, "SLURM_JOB_NAME");
  c.run_id = fmt::format("{}.{}.{}", job_id, step_id_, restarts);
  c.master_addr = first_host(get(spank, "SLURM_STEP_NODELIST"));
  c.master_port = rendezvous_port(job_id, step_id_);
  // The number of learners that srun starts does not change: the job keeps the size with which it began.
  if (request_.batch) {
    auto split = split_of_job(*request_.batch, request_.learners ? request_.learners->min : c.world_size, c.world_size);
    if (!split) return std::move(split).error().with_context("--dl-batch");
    describe_batch(*request_.batch, *split, &c);
  }
  char folder[PATH_MAX];
  if (::getcwd(folder, sizeof folder) != nullptr) c.work_dir = folder;
  if (request_.checkpoint) {
    DL_TRY_ASSIGN(const CheckpointSpec spec, checkpoint(spank));
    c.checkpoint_dir = spec.path.front() == '/' ? spec.path : c.work_dir + "/" + spec.path;
  }
  return c;
}

Status NodeSide::add_families(spank_t spank) {
  DL_TRY_ASSIGN(const LearnerContext learner, context(spank));
  char** list = nullptr;
  if (spank_get_item(spank, S_JOB_ENV, &list) != ESPANK_SUCCESS || list == nullptr)
    return Error{Errc::kInternal, "Slurm does not give the environment of the task to spank_dl.so", 0};
  Environment inherited;
  for (; *list != nullptr; ++list) {
    const std::string entry = *list;
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) inherited.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  Environment before = inherited;
  take_back_given(&before);  // of the task around this one
  Environment after = before;
  LearnerRecipe recipe;
  recipe.version = &version_environment_;
  recipe.families = &framework_->families;
  recipe.python_folder = installed_python_folder();
  Environment known;
  if (request_.checkpoint) {
    DL_TRY_ASSIGN(CheckpointSpec spec, checkpoint(spank));
    spec.path = learner.checkpoint_dir;
    known.emplace(env::kCheckpoint, format_checkpoint(spec));
  }
  recipe.known = &known;
  DL_TRY(compose(recipe, learner, &after));
  for (const auto& [name, value] : inherited)
    if (after.count(name) == 0) (void)spank_unsetenv(spank, name.c_str());
  for (const auto& [name, value] : after) {
    auto old = inherited.find(name);
    if (old != inherited.end() && old->second == value) continue;
    if (spank_setenv(spank, name.c_str(), value.c_str(), 1) != ESPANK_SUCCESS)
      return Error{Errc::kInternal, "environment variable " + name + " could not be set for the task", 0};
  }
  if (spank_setenv(spank, env::kGiven, format_given(before, after).c_str(), 1) != ESPANK_SUCCESS)
    return Error{Errc::kInternal, std::string("environment variable ") + env::kGiven + " could not be set for the task",
                 0};
  return {};
}

}  // namespace dl
