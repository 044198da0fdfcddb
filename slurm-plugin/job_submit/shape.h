// SPDX-License-Identifier: Apache-2.0
// Turns a request into the shape of a job: nodes, tasks, GPUs, requeueing and signals. Pure, without Slurm's types.
// job_submit_entry.cpp fills the Submission from Slurm's job description, and writes the Shape back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "frameworks/catalogue.h"
#include "slurm-plugin/job_request.h"

namespace dl {

// Slurm's own options as the user gave them, as far as they affect ours. nullopt or empty: not given.
struct Submission {
  bool batch = false;          // sbatch; otherwise srun or salloc, which cannot be requeued
  bool srun = false;           // srun, which starts the tasks itself
  bool one_process = false;    // the batch script probably starts no process beside itself (script_look.h)
  bool heterogeneous = false;  // a component of a heterogeneous job
  std::string array;           // --array
  std::optional<int64_t> tasks, min_nodes, max_nodes, tasks_per_node, tasks_per_gpu;
  std::optional<int64_t> cpus_per_task;
  std::optional<int64_t> tasks_per_core;
  bool cpus_per_gpu = false;
  // What is asked for beside the GPUs (gpu_share.h). CPUs: in all (at least and at most), on each node, for each GPU.
  // Memory in MiB: on each node, for each CPU (0 is all of it for both), for each GPU.
  std::optional<int64_t> min_cpus, max_cpus, cpus_per_node, cpus_of_gpu;
  std::optional<int64_t> memory_per_node, memory_per_cpu, memory_per_gpu;
  bool enforce_binding = false;  // --gres-flags=enforce-binding
  bool overcommit = false;
  std::string tres_per_job, tres_per_node, tres_per_socket, tres_per_task;
  std::optional<bool> requeue;
  bool open_mode = false;
  bool signal = false;
  std::optional<std::chrono::minutes> time_limit;
  std::string qos, partition;
  bool exclusive = false;  // whole nodes
  // Slurm keeps other users' jobs off its nodes, although it gets only the GPUs that it asks for: --exclusive=user.
  bool keeps_others_off = false;
  bool spread_job = false, use_min_nodes = false;
  std::optional<bool> pack_tasks;  // --distribution=...,Pack (true) or NoPack (false)
  std::optional<int64_t> sockets_per_node;
  std::string account, licences, admin_comment, work_dir;
  std::optional<int64_t> begin_s;  // --begin, in seconds since 1970
  // Set by the tenant's rules (tenant_rules.h).
  bool of_tenant = false;            // the job has a tenant with quotas, so a tier needs no QOS or partition of its own
  bool borrowed = false;             // charged as borrowed: tier auto means borrow
  std::optional<Tier> default_tier;  // replaces [defaults] tier
  // with_shape() sets these from the shape.
  Placement placement = Placement::kPack;
  int64_t fewest_nodes = 0;
};

// What to change in the job. nullopt, empty or false: leave as it is.
struct Shape {
  std::optional<uint32_t> tasks, min_nodes, max_nodes, min_cpus;
  std::optional<uint16_t> cpus_per_task;
  std::optional<uint16_t> cpus_per_node;  // the least number; for elastic jobs
  // how many tasks `srun` in the script starts on each node; only set in the job's environment
  std::optional<uint16_t> tasks_per_node;
  std::optional<uint16_t> exact_tasks_on_node;
  bool few_nodes = false;  // take as few nodes of the range as Slurm finds free
  std::string gpu_type;    // type of the GPUs in the next two members; may be empty
  int gpus_per_task = 0;   // for jobs whose nodes may have different numbers of learners
  int gpus_per_node = 0;   // for elastic jobs, whose number of nodes Slurm chooses
  bool requeue = false;    // put the job back into the queue when it is preempted; its output is then appended
  bool append = false;
  std::chrono::seconds signal_lead{0};  // Slurm sends SIGUSR2 to the steps this long before the time limit; 0: never
  std::string qos, partition;
  Placement placement = Placement::kPack;
  uint32_t fewest_nodes = 0;  // the fewest nodes on which the job could run; 0: the user has given the number of nodes
  std::string message;        // for the user, one sentence on each line, each beginning with "dl: "
};

// kConflict names both sides: "--ntasks=3 conflicts with --dl-learners=4: ...". kNotFound: framework or version
// unknown. kUnsupported: the site has not set up the requested feature.
Result<Shape> shape_job(const JobRequest& request, const Submission& given, const SiteConfig& site,
                        const Catalogue& catalogue);
// kUnsupported if a tier of dl.toml gives a job a QOS, and Slurm would ignore it, since QOS live in slurmdbd. Then the
// job would run in the default partition, where nobody could take its GPUs back. qos: empty for none.
Status check_qos(const std::string& qos, bool slurm_knows_qos);

}  // namespace dl
