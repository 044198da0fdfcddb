// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/job_description.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "common/base/parse.h"
#include "common/contract/env_names.h"
#include "common/contract/own_signal.h"
#include "slurm-plugin/job_submit/gpu_count.h"
#include "slurm-plugin/job_submit/script_look.h"
#include "slurm-plugin/options.h"

namespace dl {
namespace {

// The value of NAME in the environment in which Slurm carries the flags; the last one counts. nullptr if there is none.
const char* find_value(const job_desc_msg_t& job, const std::string& name) {
  const char* found = nullptr;
  for (uint32_t i = 0; i < job.spank_job_env_size && job.spank_job_env != nullptr; ++i) {
    const char* entry = job.spank_job_env[i];
    if (entry != nullptr && std::strncmp(entry, name.c_str(), name.size()) == 0 && entry[name.size()] == '=')
      found = entry + name.size() + 1;
  }
  return found;
}

// Whether the submission has the flag that this variable presets.
bool is_given(const job_desc_msg_t& job, std::string_view variable) {
  for (const Option& option : kOptions)
    if (variable == option.env) return find_value(job, slurm_option_env(option)) != nullptr;
  return false;
}

std::optional<int64_t> given32(uint32_t value) {
  if (value == NO_VAL || value == INFINITE) return std::nullopt;
  return value;
}

std::optional<int64_t> given16(uint16_t value) {
  if (value == NO_VAL16 || value == INFINITE16) return std::nullopt;
  return value;
}

// Appends "gres:gpu:a100:2" to the GRES that the user asked for.
void add_gpus(char** field, const std::string& type, int count, char separator) {
  std::string tres = abi::text_of(*field);
  if (!tres.empty()) tres += ',';
  tres += abi::kGpuGres;
  if (!type.empty()) tres += ':' + type;
  abi::set_string(field, fmt::format("{}{}{}", tres, separator, count));
}

}  // namespace

Result<JobRequest> read_request(const job_desc_msg_t& job) {
  JobRequest request;
  for (const Option& option : kOptions)
    if (const char* value = find_value(job, slurm_option_env(option))) DL_TRY(read_option(option, value, &request));
  return request;
}

std::vector<std::string> align_environment(const JobRequest& request, job_desc_msg_t* job) {
  std::vector<std::string> notes;
  if (job->script == nullptr || job->environment == nullptr) return notes;  // srun and salloc send no environment
  for (const Option& option : kOptions) {
    const std::string name = option.env, flag = slurm_option_env(option);
    const std::string* asked = nullptr;
    for (const auto& [set, value] : request.environment)
      if (set == name) asked = &value;
    // The node reads the flag from these variables ("carriers"), so they must not contradict the DL_* variable.
    const std::string carriers[] = {flag, kInheritedPrefix + flag};
    for (uint32_t i = 0; i < job->env_size; ++i) {
      const std::string entry = abi::text_of(job->environment[i]), found = entry.substr(0, entry.find('='));
      if (found.size() == entry.size() || (found != name && found != carriers[0] && found != carriers[1])) continue;
      const std::string value = entry.substr(found.size() + 1);
      if (asked != nullptr ? value == *asked : value.empty() && found == name) continue;
      // The variable is emptied, not removed: slurmctld accepts no batch job without an environment.
      abi::set_string(&job->environment[i], asked != nullptr ? found + '=' + *asked : name + '=');
      if (found != name || value.empty()) continue;
      notes.push_back(asked != nullptr
                          ? fmt::format("{}={} in the job's environment does not count: --{}={} was asked for", name,
                                        printable(value, 100), option.name, printable(*asked, 100))
                          : fmt::format("{}={} in the job's environment alone asks for nothing and is emptied; "
                                        "allowed: --{}={}",
                                        name, printable(value, 100), option.name, printable(value, 100)));
    }
    if (asked == nullptr) continue;
    abi::add_environment(&job->environment, &job->env_size, name, *asked);
    abi::add_environment(&job->environment, &job->env_size, carriers[1], *asked);
  }
  return notes;
}

// The values of JOB_SHARED_NONE and JOB_SHARED_OK in slurmctld.h. All others keep certain jobs off the nodes: those of
// other users (--exclusive=user), of other MCS labels, or in the same part of the topology.
constexpr uint16_t kExclusive = 0, kShared = 1;

bool keeps_others_off(uint16_t shared) {
  return shared != kExclusive && shared != kShared && given16(shared).has_value();
}

// Where slurm.conf allows --core-spec and --thread-spec, Slurm gives a job with one of them whole nodes.
bool has_core_spec(const job_desc_msg_t& job) {
  return job.core_spec != NO_VAL16 && (&slurm_conf == nullptr || (slurm_conf.conf_flags & abi::kAllowsCoreSpec) != 0);
}

Submission read_submission(const job_desc_msg_t& job) {
  Submission given;
  given.batch = job.script != nullptr;
  const char* client = find_value(job, kClientEnv);
  given.srun = !given.batch && client != nullptr && std::strcmp(client, "srun") == 0;
  // slurmctld sets het_job_offset to NO_VAL for every job of one component, except for jobs of scrontab.
  given.heterogeneous = job.het_job_offset != NO_VAL && (job.bitflags & CRON_JOB) == 0;
  given.array = abi::text_of(job.array_inx);
  given.tasks = given32(job.num_tasks);
  given.min_nodes = given32(job.min_nodes);
  given.max_nodes = given32(job.max_nodes);
  given.tasks_per_node = given16(job.ntasks_per_node);
  given.tasks_per_gpu = given16(job.ntasks_per_tres);
  given.tasks_per_core = given16(job.ntasks_per_core);
  given.cpus_per_task = given16(job.cpus_per_task);
  for (auto* field : {&given.tasks, &given.min_nodes, &given.max_nodes, &given.tasks_per_node, &given.tasks_per_gpu,
                      &given.tasks_per_core, &given.cpus_per_task})
    if (*field == 0) field->reset();
  // The script is only searched if the result can lead to a message: a long script takes milliseconds, in which
  // slurmctld waits.
  const bool several =
      std::max({given.tasks.value_or(1), given.min_nodes.value_or(1), given.tasks_per_node.value_or(1)}) > 1;
  const bool learners = is_given(job, env::kLearners) || (several && is_given(job, env::kGpus));
  given.one_process = given.batch && learners && !may_start_tasks(job.script);
  // With these options (--hint=nomultithread sets them) and --nodes, sbatch itself sets the number of tasks to the
  // number of nodes, as if the user had asked for that.
  const bool sbatch_counts = given.tasks_per_core || given16(job.threads_per_core);
  if (sbatch_counts && given.tasks && given.tasks == given.min_nodes && !given.tasks_per_node) given.tasks.reset();
  given.cpus_per_gpu = asks_for_gpus(abi::text_of(job.cpus_per_tres));
  given.min_cpus = given32(job.min_cpus);
  given.max_cpus = given32(job.max_cpus);  // no option sets it, but other clients may
  given.cpus_per_node = given16(job.pn_min_cpus);
  given.cpus_of_gpu = count_of_gpu(abi::text_of(job.cpus_per_tres));
  given.memory_per_gpu = count_of_gpu(abi::text_of(job.mem_per_tres));
  if (job.pn_min_memory != NO_VAL64)
    ((job.pn_min_memory & MEM_PER_CPU) != 0 ? given.memory_per_cpu : given.memory_per_node) =
        static_cast<int64_t>(job.pn_min_memory & ~MEM_PER_CPU);
  given.overcommit = job.overcommit == 1;
  given.enforce_binding = (job.bitflags & GRES_ENFORCE_BIND) != 0;
  given.tres_per_job = abi::text_of(job.tres_per_job);
  given.tres_per_node = abi::text_of(job.tres_per_node);
  given.tres_per_socket = abi::text_of(job.tres_per_socket);
  given.tres_per_task = abi::text_of(job.tres_per_task);
  if (job.requeue != NO_VAL16) given.requeue = job.requeue != 0;
  given.open_mode = job.open_mode != 0;
  given.signal = job.warn_signal != 0;
  if (auto minutes = given32(job.time_limit)) given.time_limit = std::chrono::minutes(*minutes);
  given.qos = abi::text_of(job.qos);
  given.partition = abi::text_of(job.partition);
  given.exclusive = job.shared == kExclusive || has_core_spec(job);
  given.keeps_others_off = keeps_others_off(job.shared);
  given.spread_job = (job.bitflags & SPREAD_JOB) != 0;
  given.use_min_nodes = (job.bitflags & USE_MIN_NODES) != 0;
  if (given32(job.task_dist) && (job.task_dist & (SLURM_DIST_PACK_NODES | SLURM_DIST_NO_PACK_NODES)) != 0)
    given.pack_tasks = (job.task_dist & SLURM_DIST_PACK_NODES) != 0;
  given.sockets_per_node = given16(job.sockets_per_node);
  given.account = abi::text_of(job.account);
  given.licences = abi::text_of(job.licenses);
  given.admin_comment = abi::text_of(job.admin_comment);
  given.work_dir = abi::text_of(job.work_dir);
  if (job.begin_time > 0) given.begin_s = job.begin_time;
  return given;
}

void write_shape(const Shape& shape, job_desc_msg_t* job) {
  if (shape.tasks) {
    job->num_tasks = *shape.tasks;
    job->bitflags |= JOB_NTASKS_SET;  // from 24.05 on, SLURM_NTASKS in the batch script depends on it
  }
  if (shape.min_nodes) job->min_nodes = *shape.min_nodes;
  if (shape.max_nodes) job->max_nodes = *shape.max_nodes;
  if (shape.few_nodes) job->bitflags |= USE_MIN_NODES;
  if (shape.exact_tasks_on_node) job->ntasks_per_node = *shape.exact_tasks_on_node;
  if (shape.tasks_per_node && job->environment != nullptr)
    abi::add_environment(&job->environment, &job->env_size, "SLURM_NTASKS_PER_NODE",
                         std::to_string(*shape.tasks_per_node));
  if (shape.cpus_per_node && (job->pn_min_cpus == NO_VAL16 || job->pn_min_cpus < *shape.cpus_per_node))
    job->pn_min_cpus = *shape.cpus_per_node;
  if (shape.cpus_per_task) {
    job->cpus_per_task = *shape.cpus_per_task;
    job->bitflags |= JOB_CPUS_SET;
  }
  if (shape.min_cpus) job->min_cpus = *shape.min_cpus;
  if (shape.gpus_per_task > 0)
    add_gpus(&job->tres_per_task, shape.gpu_type, shape.gpus_per_task, abi::kTaskCountSeparator);
  if (shape.gpus_per_node > 0) add_gpus(&job->tres_per_node, shape.gpu_type, shape.gpus_per_node, ':');
  if (shape.requeue) job->requeue = 1;
  if (shape.append) job->open_mode = OPEN_MODE_APPEND;
  if (shape.signal_lead.count() > 0) {
    job->warn_signal = SIGUSR2;
    job->warn_time = static_cast<uint16_t>(shape.signal_lead.count());
    // to the steps, in which dlrun's agents run, not to the batch script
    job->warn_flags &= static_cast<uint16_t>(~KILL_JOB_BATCH);
    if (job->environment != nullptr)
      abi::add_environment(&job->environment, &job->env_size, kSignalEnv,
                           fmt::format("USR2@{}", shape.signal_lead.count()));
  }
  // A signal that the user asked for stays; dlrun saves before it arrives.
  const bool own = job->warn_signal != 0 && shape.signal_lead.count() == 0;
  if (own && job->environment != nullptr) {
    const bool to_script = (job->warn_flags & KILL_JOB_BATCH) != 0;
    abi::add_environment(&job->environment, &job->env_size, kOwnSignalEnv,
                         format_own_signal({job->warn_signal, job->warn_time, to_script}));
  }
  if (job->script != nullptr && job->environment != nullptr)
    abi::add_environment(&job->environment, &job->env_size, env::kNodeSide, env::kNodeSideAwaited);
  if (!shape.qos.empty()) abi::set_string(&job->qos, shape.qos);
  if (!shape.partition.empty()) abi::set_string(&job->partition, shape.partition);
}

void write_ruling(const Ruling& ruling, job_desc_msg_t* job) {
  abi::set_string(&job->account, ruling.account);
  if (!ruling.licences.empty()) abi::set_string(&job->licenses, ruling.licences);
  abi::set_string(&job->admin_comment, ruling.label);
  if (ruling.min_nodes) job->min_nodes = *ruling.min_nodes;
  if (ruling.max_nodes) job->max_nodes = *ruling.max_nodes;
  if (ruling.begin_s) job->begin_time = *ruling.begin_s;
  if (ruling.gpu_type.empty()) return;
  for (char** field : {&job->tres_per_job, &job->tres_per_node, &job->tres_per_socket, &job->tres_per_task})
    if (asks_for_gpus(abi::text_of(*field)))
      abi::set_string(field, with_gpu_type(abi::text_of(*field), ruling.gpu_type));
}

void move_to_tier(const TierTarget& target, job_desc_msg_t* job) {
  if (!target.qos.empty() && job->qos == nullptr) abi::set_string(&job->qos, target.qos);
  if (!target.partition.empty() && job->partition == nullptr) abi::set_string(&job->partition, target.partition);
}

void write_network(bool job_alone, job_desc_msg_t* job) {
  const std::string name = std::string(env::kNetwork) + "=", value = job_alone ? "job" : "any";
  for (uint32_t i = 0; i < job->spank_job_env_size && job->spank_job_env != nullptr; ++i)
    if (abi::text_of(job->spank_job_env[i]).rfind(name, 0) == 0) abi::set_string(&job->spank_job_env[i], name + value);
  if (job_alone) abi::add_environment(&job->spank_job_env, &job->spank_job_env_size, env::kNetwork, value);
}

bool prolog_runs_at_allocation() {
  return &slurm_conf == nullptr || (slurm_conf.prolog_flags & PROLOG_FLAG_ALLOC) != 0;  // Contain implies Alloc
}

std::optional<std::string> declared_licences() {
  if (&slurm_conf == nullptr || slurm_conf.cluster_name == nullptr) return std::nullopt;
  return abi::text_of(slurm_conf.licenses);
}

bool knows_qos() {
  return &slurm_conf == nullptr || slurm_conf.cluster_name == nullptr ||
         abi::text_of(slurm_conf.accounting_storage_type).find("slurmdbd") != std::string::npos;
}

std::string slurm_conf_path() {
  return &slurm_conf == nullptr ? "" : abi::text_of(slurm_conf.slurm_conf);
}

int64_t slurm_conf_read_at() {
  return &slurm_conf == nullptr ? 0 : slurm_conf.last_update;
}

Status check_stays_here(const job_desc_msg_t& job) {
  if (&fed_mgr_fed_rec == nullptr || &fed_mgr_cluster_rec == nullptr) return {};
  if (fed_mgr_fed_rec == nullptr || fed_mgr_cluster_rec == nullptr) return {};
  const std::string here = abi::text_of(fed_mgr_cluster_rec->name), asked = abi::text_of(job.clusters);
  if (asked == here) return {};
  return Error{Errc::kUnsupported,
               fmt::format("{}in the federation '{}' the job might start in another cluster, where --dl-* flags and "
                           "GPUs of tenants are not those of this one; allowed: --clusters={}",
                           asked.empty() ? "" : "--clusters=" + printable(asked, 200) + ": ",
                           printable(abi::text_of(fed_mgr_fed_rec->name), 100), here)};
}

Change read_change(const job_desc_msg_t& job) {
  Change change;
  change.qos = abi::text_of(job.qos);
  change.partition = abi::text_of(job.partition);
  const auto set16 = [](uint16_t value) { return value != NO_VAL16; };
  change.licences = job.licenses != nullptr;
  change.account = job.account != nullptr;
  change.admin_comment = job.admin_comment != nullptr;
  change.nodes = job.min_nodes != NO_VAL || job.max_nodes != NO_VAL;
  change.tasks = job.num_tasks != NO_VAL || set16(job.ntasks_per_node) || set16(job.ntasks_per_tres);
  change.gpus = job.tres_per_job != nullptr || job.tres_per_node != nullptr || job.tres_per_socket != nullptr ||
                job.tres_per_task != nullptr || set16(job.sockets_per_node);
  if (job.begin_time != 0) change.begin_s = job.begin_time;  // slurmctld starts a job with a negative one at once
  change.cpus = job.min_cpus != NO_VAL || job.max_cpus != NO_VAL || set16(job.cpus_per_task) ||
                set16(job.pn_min_cpus) || job.cpus_per_tres != nullptr;
  change.memory = job.pn_min_memory != NO_VAL64 || job.mem_per_tres != nullptr;
  change.exclusive = job.shared == kExclusive || keeps_others_off(job.shared);
  return change;
}

std::string default_account(uint32_t uid) {
  if (assoc_mgr_fill_in_user == nullptr) return {};
  slurmdb_user_rec_t user{};
  user.uid = uid;
  if (assoc_mgr_fill_in_user(nullptr, &user, 0, nullptr, false) != SLURM_SUCCESS) return {};
  return abi::text_of(user.default_acct);  // slurmctld owns this string
}

}  // namespace dl
