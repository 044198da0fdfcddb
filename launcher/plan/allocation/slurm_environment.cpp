// SPDX-License-Identifier: Apache-2.0
// Reads the allocation from the SLURM_* variables of a batch script or of salloc's shell. Names and forms: sbatch(1)
// "OUTPUT ENVIRONMENT VARIABLES" of 22.05 and later.
#include <algorithm>

#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "launcher/plan/allocation/allocation.h"

namespace dl::plan {
namespace {

constexpr int64_t kMaxCount = 10000000;

const std::string* find(const Environment& environment, const char* name) {
  auto found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

Error in_variable(Error error, const char* name) {
  return std::move(error).with_context(name);
}

// *out keeps its value if the variable is not set.
Status read_int(const Environment& environment, const char* name, int64_t max, int* out) {
  const std::string* text = find(environment, name);
  if (text == nullptr) return {};
  auto value = parse_int(*text, 0, max);
  if (!value) return in_variable(std::move(value).error(), name);
  *out = static_cast<int>(*value);
  return {};
}

// The sum of the last fields of "2", "a100:2", "gpu:a100:2,gpu:v100:1" or "gres/gpu:a100=2".
Result<int> sum_gpus(const std::string& text) {
  int64_t sum = 0;
  for (const std::string& part : split(text, ',')) {
    const size_t before = part.find_last_of(":=");
    DL_TRY_ASSIGN(const int64_t count,
                  parse_int(before == std::string::npos ? part : part.substr(before + 1), 0, kMaxCount));
    sum += count;
  }
  return static_cast<int>(std::min(sum, kMaxCount));
}

// Finds the GPUs of each node. The batch host is given its own number only, so the numbers of the others come from the
// request, or the total is divided if it can be. scontrol is asked for what remains unknown (refine_from_scontrol).
Status read_gpus(const Environment& environment, Allocation* allocation) {
  if (const std::string* per_node = find(environment, "SLURM_GPUS_PER_NODE")) {
    auto gpus = sum_gpus(*per_node);
    if (!gpus) return in_variable(std::move(gpus).error(), "SLURM_GPUS_PER_NODE");
    for (Node& node : allocation->nodes) node.gpus = *gpus;
    return {};
  }
  int here = -1;
  DL_TRY(read_int(environment, "SLURM_GPUS_ON_NODE", kMaxCount, &here));
  int total = -1;
  if (const std::string* text = find(environment, "SLURM_GPUS")) {
    auto gpus = sum_gpus(*text);
    if (!gpus) return in_variable(std::move(gpus).error(), "SLURM_GPUS");
    total = *gpus;
  }
  const int count = static_cast<int>(allocation->nodes.size());
  if (here >= 0 && (total < 0 || total == here * count)) {
    for (Node& node : allocation->nodes) node.gpus = here;
  } else if (count == 1 && total >= 0) {
    allocation->nodes[0].gpus = total;
  }
  return {};
}

}  // namespace

bool in_slurm_job(const Environment& environment) {
  return find(environment, "SLURM_JOB_ID") != nullptr &&
         (find(environment, "SLURM_JOB_NODELIST") != nullptr || find(environment, "SLURM_NODELIST") != nullptr);
}

Result<Allocation> allocation_from_slurm(const Environment& environment) {
  if (!in_slurm_job(environment))
    return Error{Errc::kNotFound,
                 "not inside a Slurm job: SLURM_JOB_ID is not set; allowed: the same in a batch script, or in salloc"};
  Allocation allocation;
  allocation.source = Allocation::Source::kSlurm;
  auto job_id = parse_int(environment.at("SLURM_JOB_ID"), 1, 0xffffffff);
  if (!job_id) return in_variable(std::move(job_id).error(), "SLURM_JOB_ID");
  allocation.job_id = std::to_string(*job_id);
  // The job id of an array's last element is the id of the array, which Slurm's commands take for all elements, so the
  // element is named instead. Other job ids are unambiguous. They are not replaced, because the variables prove
  // nothing: sbatch passes those of an array on to jobs that are submitted from within it.
  const std::string *array = find(environment, "SLURM_ARRAY_JOB_ID"), *task = find(environment, "SLURM_ARRAY_TASK_ID");
  if (array != nullptr && task != nullptr) {
    auto array_id = parse_int(*array, 1, 0xffffffff), task_id = parse_int(*task, 0, 0xffffffff);
    if (!array_id) return in_variable(std::move(array_id).error(), "SLURM_ARRAY_JOB_ID");
    if (!task_id) return in_variable(std::move(task_id).error(), "SLURM_ARRAY_TASK_ID");
    if (*array_id == *job_id) allocation.job_id += "_" + std::to_string(*task_id);
  }

  int step_tasks = 0;
  DL_TRY(read_int(environment, "SLURM_STEP_NUM_TASKS", kMaxCount, &step_tasks));
  if (step_tasks > 1) {
    return Error{Errc::kConflict,
                 "dlrun was itself started by srun with " + std::to_string(step_tasks) +
                     " tasks, and starts the learners itself; call it once, without srun: dlrun -- COMMAND; "
                     "at a terminal: salloc --dl-learners=N dlrun --debug -- COMMAND"};
  }

  const char* list_name = find(environment, "SLURM_JOB_NODELIST") != nullptr ? "SLURM_JOB_NODELIST" : "SLURM_NODELIST";
  auto names = expand_hostlist(environment.at(list_name));
  if (!names) return in_variable(std::move(names).error(), list_name);
  std::vector<std::string> sorted = *names;
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return in_variable(Error{Errc::kInvalid, "node '" + *twice + "' is listed twice; allowed: each node once"},
                       list_name);
  if (names->empty())
    return in_variable(
        Error{Errc::kInvalid, "the list of nodes is empty; allowed: the job's nodes, as Slurm sets them"}, list_name);
  for (std::string& name : *names) allocation.nodes.push_back(Node{std::move(name), 0, 0, -1, {}, 0, 0});

  // In a plain step of one task these are about the step; in salloc's interactive step they are about the job.
  const std::string *tasks = find(environment, "SLURM_NTASKS"), *per_node = find(environment, "SLURM_TASKS_PER_NODE");
  allocation.of_step = step_tasks == 1 && tasks != nullptr && *tasks == "1";
  if (!allocation.of_step) DL_TRY(read_int(environment, "SLURM_NTASKS", kMaxCount, &allocation.tasks));
  DL_TRY(read_int(environment, "SLURM_CPUS_PER_TASK", kMaxCount, &allocation.cpus_per_task));
  DL_TRY(read_int(environment, "SLURM_RESTART_COUNT", kMaxCount, &allocation.restart_count));
  if (per_node != nullptr && !allocation.of_step) {
    auto counts = expand_counts(*per_node, allocation.nodes.size());
    if (!counts) return in_variable(std::move(counts).error(), "SLURM_TASKS_PER_NODE");
    for (size_t i = 0; i < counts->size(); ++i) allocation.nodes[i].tasks = (*counts)[i];
  }
  if (const std::string* text = find(environment, "SLURM_JOB_CPUS_PER_NODE")) {
    auto counts = expand_counts(*text, allocation.nodes.size());
    if (!counts) return in_variable(std::move(counts).error(), "SLURM_JOB_CPUS_PER_NODE");
    for (size_t i = 0; i < counts->size(); ++i) allocation.nodes[i].cpus = (*counts)[i];
  }
  DL_TRY(read_gpus(environment, &allocation));
  if (const std::string* text = find(environment, "SLURM_JOB_END_TIME")) {
    auto end = parse_int(*text, 0, INT64_MAX);
    if (!end) return in_variable(std::move(end).error(), "SLURM_JOB_END_TIME");
    allocation.end_time_s = *end;
  }
  if (const std::string* text = find(environment, "SLURM_CLUSTER_NAME")) allocation.cluster = *text;
  if (const std::string* text = find(environment, "SLURM_JOB_NAME")) allocation.job_name = *text;
  if (const std::string* text = find(environment, "SLURM_SUBMIT_DIR")) {
    if ((*text)[0] == '/') allocation.submit_dir = *text;
  }
  return allocation;
}

Allocation local_allocation(const std::string& host_name, int cpus, int gpus, const std::string& job_id,
                            const std::string& work_dir) {
  Allocation allocation;
  allocation.source = Allocation::Source::kLocal;
  allocation.nodes.push_back(Node{host_name, 0, cpus, gpus, {}, 0, 0});
  allocation.job_id = job_id;
  allocation.submit_dir = work_dir;
  return allocation;
}

}  // namespace dl::plan
