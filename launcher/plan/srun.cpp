// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/srun.h"

#include <algorithm>
#include <utility>

#include "common/base/hostlist.h"
#include "common/contract/job_directory.h"
#include "common/contract/rank_list.h"

namespace dl::plan {
namespace {

// Variables of the job's environment that srun would read as options. They are meant for the user's own steps, and
// conflict with the options below (srun(1), "INPUT ENVIRONMENT VARIABLES", of 22.05 to 25.11). The list leaves out what
// names the job and the cluster (SLURM_JOB_ID, SLURM_CONF, ...), debugging, and SLURM_CPU_FREQ_REQ, SLURM_NETWORK and
// the like, which describe the hardware that the user wants for every step.
const char* const kScrub[] = {
    "SLURM_CPU_BIND",
    "SLURM_CPU_BIND_LIST",
    "SLURM_CPU_BIND_TYPE",
    "SLURM_CPU_BIND_VERBOSE",
    "SLURM_CPUS_PER_GPU",
    "SLURM_CPUS_PER_TASK",
    "SLURM_DISTRIBUTION",
    "SLURM_DIST_LLLP",
    "SLURM_DIST_PLANESIZE",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
    "SLURM_EXPORT_ENV",
    "SLURM_GPU_BIND",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GRES",
    "SLURM_HINT",
    "SLURM_HOSTFILE",
    "SLURM_KILL_BAD_EXIT",
    "SLURM_LABELIO",
    "SLURM_MEM_BIND",
    "SLURM_MEM_BIND_LIST",
    "SLURM_MEM_BIND_PREFER",
    "SLURM_MEM_BIND_SORT",
    "SLURM_MEM_BIND_TYPE",
    "SLURM_MEM_BIND_VERBOSE",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_MPI_TYPE",
    "SLURM_NCORES_PER_SOCKET",
    "SLURM_NNODES",
    "SLURM_NPROCS",
    "SLURM_NSOCKETS_PER_NODE",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_NTASKS_PER_TRES",
    "SLURM_OPEN_MODE",
    "SLURM_OVERCOMMIT",
    "SLURM_OVERLAP",
    "SLURM_PROLOG",
    "SLURM_EPILOG",
    "SLURM_REMOTE_CWD",
    "SLURM_RESV_PORTS",
    "SLURM_SPREAD_JOB",
    "SLURM_SRUN_MULTI",
    "SLURM_STDERRMODE",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_STEP_GRES",
    "SLURM_TASK_EPILOG",
    "SLURM_TASK_PROLOG",
    "SLURM_TEST_EXEC",
    "SLURM_THREADS",
    "SLURM_THREADS_PER_CORE",
    "SLURM_TIMELIMIT",
    "SLURM_TRES_BIND",
    "SLURM_TRES_PER_TASK",
    "SLURM_UNBUFFEREDIO",
    "SLURM_USE_MIN_NODES",
    "SLURM_WAIT",
    "SLURM_WORKING_DIR",
    "SRUN_CPUS_PER_TASK",
    "SRUN_EXPORT_ENV",
};

// What one srun starts: the agents on the job's own nodes, or on those of a companion.
struct Part {
  std::string companion;  // PlannedNode::companion
  std::vector<const PlannedNode*> nodes;
  std::vector<int> ranks;
  bool whole = false;  // all nodes of that allocation hold learners
};

Part part_of(const LaunchPlan& plan, const Allocation& allocation, const std::string& companion) {
  Part part;
  part.companion = companion;
  for (const PlannedNode& node : plan.nodes)
    if (node.companion == companion) part.nodes.push_back(&node);
  for (const PlannedLearner& learner : plan.learners)
    if (plan.nodes[static_cast<size_t>(learner.node)].companion == companion) part.ranks.push_back(learner.rank);
  const auto there = std::count_if(allocation.nodes.begin(), allocation.nodes.end(),
                                   [&](const Node& node) { return node.companion == companion; });
  part.whole = part.nodes.size() == static_cast<size_t>(there) && (!companion.empty() || !allocation.nodes_left_out);
  return part;
}

// srun's own layouts match the plan only where there is no choice: all learners on one node, or one on each. Even with
// --ntasks-per-node=2 srun of 22.05.8 puts 3,2,1 learners on nodes of 4,1,1 CPUs. Any other layout is given to srun
// host by host in a file, which it follows exactly. The file also gives the number of nodes: srun of 23.11 and later
// refuses --nodes beside it ("--nodes is incompatible with --distribution=arbitrary").
//
// PMIx is set up only where it is used, because a server takes time to start: Slurm's plugin sets one up on each node,
// which took 0.13 s of the start of 8 learners on 2 nodes (22.05.8).
CompanionStep step_of(const PlanInput& input, bool pmix, const Allocation& allocation, bool overcommit,
                      const LaunchPlan& plan, const Part& part) {
  CompanionStep step;
  step.job = part.companion;
  step.ranks = format_rank_list(part.ranks);
  const size_t nodes = part.nodes.size();
  std::vector<std::string> names;
  names.reserve(nodes);
  for (const PlannedNode* node : part.nodes) names.push_back(node->name);
  step.node_list = compress_hostlist(names);
  const bool own_layout = nodes == 1 || part.ranks.size() == nodes;
  std::vector<std::string>& argv = step.argv;
  argv = {"srun", "--job-name=learners"};
  if (!part.companion.empty()) argv.push_back("--jobid=" + part.companion);
  if (own_layout) argv.push_back("--nodes=" + std::to_string(nodes));
  argv.push_back("--ntasks=" + std::to_string(part.ranks.size()));
  if (pmix) argv.insert(argv.begin() + 1, "--mpi=" + (input.pmix_server.empty() ? input.mpi_plugin : "none"));
  if (own_layout) {
    if (!part.whole) argv.push_back("--nodelist=" + step.node_list);
  } else {
    step.hostfile_path = plan.job_dir + "/" + job_directory::kHostfile;
    if (!part.companion.empty()) step.hostfile_path += "." + part.companion;
    for (const int rank : part.ranks) {
      const PlannedLearner& learner = plan.learners[static_cast<size_t>(rank)];
      step.hostfile_text += plan.nodes[static_cast<size_t>(learner.node)].name + "\n";
    }
    argv.emplace_back("--distribution=arbitrary");
    argv.push_back("--nodelist=" + step.hostfile_path);
  }
  // The step asks for the GPUs explicitly: otherwise srun of 22.05.8 gives the step of a job that was submitted with
  // --gpus=TOTAL only one of two. If nodes have different numbers of GPUs, only a number per task gets all of them;
  // "closest" (to all CPUs of the job on the node, since no CPUs are bound) undoes the hiding of other tasks' GPUs that
  // comes with it. The step asks for all GPUs of the job even if this run has only a part of them: its agents show that
  // part to their learners.
  const auto all_gpus = [](const PlannedNode* node) { return node->gpus + static_cast<int>(node->taken.size()); };
  const int gpus = all_gpus(part.nodes.front());
  const bool same_gpus = std::all_of(part.nodes.begin(), part.nodes.end(),
                                     [&](const PlannedNode* node) { return all_gpus(node) == gpus; });
  if (same_gpus && gpus > 0) {
    argv.push_back("--gres=gpu:" + std::to_string(gpus));
  } else if (!same_gpus && plan.gpus_per_learner > 0) {
    argv.push_back("--gpus-per-task=" + std::to_string(plan.gpus_per_learner));
    argv.emplace_back("--gpu-bind=closest");
  }
  if (overcommit) {
    argv.emplace_back("--overcommit");
  } else if (allocation.cpus_per_task > 0) {
    // From 22.05 on, srun does not take this from the job.
    argv.push_back("--cpus-per-task=" + std::to_string(allocation.cpus_per_task));
  }
  argv.insert(argv.end(), {
                              // The other learners must live on when one ends: dlrun decides what to do about it.
                              "--wait=0",
                              "--kill-on-bad-exit=0",
                              // The step of a restart must not wait until Slurm has cleaned up the previous one.
                              "--overlap",
                              // Learners bind their CPUs themselves, if at all. As for GPUs, without any option each
                              // learner of a node sees all GPUs of the node, as NCCL wants it. --gpu-bind=none means
                              // the same, but on 22.05.8 it leaves CUDA_VISIBLE_DEVICES empty if two tasks share a
                              // node.
                              "--cpu-bind=none",
                              // Also with sbatch --export=NONE, which would leave the agents without DL_CONTROL.
                              "--export=ALL",
                              plan.reads_stdin && part.companion.empty() ? "--input=0" : "--input=none",
                          });
  // Without --unbuffered srun passes on whole lines, so that lines of several learners and dlrun do not mix; with it,
  // it passes on pieces of 1 KiB. A single learner's output needs no whole lines, and may contain a progress bar. With
  // a debugger, only learner 0 is shown, and the debugger's prompt ends no line.
  if (plan.world_size() == 1 || input.debug) argv.emplace_back("--unbuffered");
  argv.push_back(input.agent_path);
  return step;
}

void fill_srun(const PlanInput& input, bool pmix, const Allocation& allocation, bool overcommit, LaunchPlan* plan) {
  if (pmix) plan->pmix_server = input.pmix_server;
  CompanionStep own = step_of(input, pmix, allocation, overcommit, *plan, part_of(*plan, allocation, ""));
  plan->argv = std::move(own.argv);
  plan->hostfile_path = std::move(own.hostfile_path);
  plan->hostfile_text = std::move(own.hostfile_text);
  for (const PlannedNode& node : plan->nodes) {
    const std::vector<CompanionStep>& steps = plan->companion_steps;
    const bool known =
        std::any_of(steps.begin(), steps.end(), [&](const CompanionStep& step) { return step.job == node.companion; });
    if (!node.companion.empty() && !known)
      plan->companion_steps.push_back(
          step_of(input, pmix, allocation, overcommit, *plan, part_of(*plan, allocation, node.companion)));
  }
  plan->scrub.assign(std::begin(kScrub), std::end(kScrub));
  if (!plan->companion_steps.empty()) {
    plan->own_ranks = std::move(own.ranks);
    plan->scrub.emplace_back("SLURM_JOB_NUM_NODES");  // of this job, not of the companion
  }
  // The user's own choice, if there is one, then has the same effect as with a bare srun.
  if (!pmix)
    plan->scrub.erase(std::remove(plan->scrub.begin(), plan->scrub.end(), "SLURM_MPI_TYPE"), plan->scrub.end());
}

void fill_mpirun(const PlanInput& input, LaunchPlan* plan) {
  plan->argv = {"mpirun", "-n", std::to_string(plan->world_size()), "--oversubscribe", "--bind-to", "none"};
  if (input.as_root) plan->argv.emplace_back("--allow-run-as-root");
  plan->argv.push_back(input.agent_path);
}

}  // namespace

void fill_start_command(const PlanInput& input, const FrameworkEntry& entry, const Allocation& allocation,
                        bool overcommit, LaunchPlan* plan) {
  if (allocation.source == Allocation::Source::kSlurm) {
    plan->method = LaunchMethod::kSrun;
    fill_srun(input, entry.pmix || input.command_uses_mpi, allocation, overcommit, plan);
  } else if (entry.launch == "mpi") {
    plan->method = LaunchMethod::kMpirun;
    fill_mpirun(input, plan);
  } else {
    plan->method = LaunchMethod::kDirect;
    plan->argv = {input.agent_path};
  }
}

}  // namespace dl::plan
