// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/launch_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/count.h"
#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/contract/env_names.h"
#include "common/contract/metric_patterns.h"
#include "common/contract/path_pattern.h"
#include "launcher/plan/capacity.h"
#include "launcher/plan/plan_data.h"
#include "launcher/plan/rank_placement/rank_placement.h"
#include "launcher/plan/srun.h"

namespace dl::plan {
namespace {

// As many learners as the job has tasks, or one per node if it names no tasks; without Slurm, one.
LearnerRange default_learners(const Allocation& allocation) {
  if (allocation.source == Allocation::Source::kLocal) return {1, 1};
  const int count = allocation.tasks > 0 ? allocation.tasks : static_cast<int>(allocation.nodes.size());
  const int bounded = std::min(count, kMaxLearners);
  return {bounded, bounded};
}

// The GPUs that each learner gets if the request does not say: an even share, if every node gives the same one.
int even_share(const Allocation& allocation, const std::vector<int>& learners_on_node) {
  int share = -1;
  for (size_t i = 0; i < allocation.nodes.size(); ++i) {
    if (learners_on_node[i] == 0) continue;
    const int gpus = allocation.nodes[i].gpus;
    if (gpus <= 0 || gpus % learners_on_node[i] != 0) return 0;
    const int here = gpus / learners_on_node[i];
    if (share >= 0 && share != here) return 0;
    share = here;
  }
  return std::min(std::max(share, 0), kMaxGpusPerLearner);
}

// Chooses this run's GPUs on the node: the first free ones. each: GPUs of a learner. All free GPUs if `each` is 0,
// because the request leaves it open and there is no even share; none if the request is for learners without GPUs.
void choose_gpus(const Request& request, int each, PlannedNode* node) {
  if (node->gpus < 0) return;
  const bool open = each == 0 && !request.gpus;
  const int all = node->gpus + static_cast<int>(node->taken.size());
  const int needed = open ? node->gpus : (node->learners - node->servers) * each;
  for (int gpu = 0; gpu < all && static_cast<int>(node->own_gpus.size()) < needed; ++gpu)
    if (std::find(node->taken.begin(), node->taken.end(), gpu) == node->taken.end()) node->own_gpus.push_back(gpu);
  node->narrowed = needed < all;
}

// Places the ranks: fills nodes, learners and gpus_per_learner. Returns the number of learners on each node of the
// allocation.
std::vector<int> place(const PlanInput& input, const Capacity& capacity, const RankPlacement& policy,
                       LaunchPlan* plan) {
  const std::vector<Node>& nodes = input.allocation.nodes;
  std::vector<int> node_of_rank = policy.place(capacity.per_node, capacity.learners);
  std::vector<int> count(nodes.size(), 0);
  const size_t learners = node_of_rank.size();
  std::vector<int> local_rank(learners);
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    local_rank[rank] = count[static_cast<size_t>(node_of_rank[rank])]++;
  }
  if (!input.request.gpus) plan->gpus_per_learner = even_share(input.allocation, count);
  // Servers come after all learners, because the local ranks of learners are the numbers of their GPUs.
  const std::vector<int> without_servers = count;
  std::vector<int> next = count;
  for (const int node : place_servers(capacity, plan->servers, &count)) {
    node_of_rank.push_back(node);
    local_rank.push_back(next[static_cast<size_t>(node)]++);
  }

  std::vector<int> planned_index(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (count[i] == 0) continue;
    planned_index[i] = static_cast<int>(plan->nodes.size());
    PlannedNode node;
    node.name = nodes[i].name;
    node.learners = count[i];
    node.servers = count[i] - without_servers[i];
    node.gpus = nodes[i].gpus;
    node.taken = nodes[i].taken;
    node.companion = nodes[i].companion;
    choose_gpus(input.request, plan->gpus_per_learner, &node);
    plan->nodes.push_back(std::move(node));
  }
  plan->learners.reserve(node_of_rank.size());
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    PlannedLearner learner;
    learner.rank = static_cast<int>(rank);
    learner.node = planned_index[static_cast<size_t>(node_of_rank[rank])];
    learner.local_rank = local_rank[rank];
    if (rank < learners) {
      plan->cross_sizes.resize(std::max(plan->cross_sizes.size(), static_cast<size_t>(learner.local_rank) + 1));
      learner.cross_rank = plan->cross_sizes[static_cast<size_t>(learner.local_rank)]++;
    }
    for (int i = 0; i < plan->gpus_per_learner && rank < learners; ++i) {
      learner.gpus.push_back(learner.local_rank * plan->gpus_per_learner + i);
    }
    plan->learners.push_back(std::move(learner));
  }
  return count;
}

// Describes the step as Slurm would. The texts are the same for all of its learners, so they are made once.
void describe_step(LaunchPlan* plan) {
  std::vector<std::string> names;
  std::vector<int> tasks;
  for (const PlannedNode& node : plan->nodes) {
    if (plan->in_world(node) == 0) continue;
    names.push_back(node.name);
    tasks.push_back(plan->in_world(node));
  }
  plan->node_list = compress_hostlist(names);
  for (size_t i = 0; i < tasks.size();) {
    size_t end = i;
    while (end < tasks.size() && tasks[end] == tasks[i]) ++end;
    plan->tasks_per_node += (i == 0 ? "" : ",") + std::to_string(tasks[i]);
    if (end - i > 1) plan->tasks_per_node += "(x" + std::to_string(end - i) + ")";
    i = end;
  }
  for (const PlannedLearner& learner : plan->learners) {
    if (plan->is_place(learner.rank)) continue;
    std::string& ranks = plan->nodes[static_cast<size_t>(learner.node)].ranks;
    ranks += (ranks.empty() ? "" : ",") + std::to_string(learner.rank);
  }
}

void warn_about_use(const PlanInput& input, const std::vector<int>& count, bool overcommit, LaunchPlan* plan) {
  const std::vector<Node>& nodes = input.allocation.nodes;
  std::string idle_nodes;
  int idle = 0;
  int64_t gpus = 0;
  int64_t cpus = 0;
  bool gpus_known = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    cpus += nodes[i].cpus;
    gpus_known = gpus_known && nodes[i].gpus >= 0;
    gpus += std::max(0, nodes[i].gpus);
    if (count[i] > 0) continue;
    if (++idle <= 5) idle_nodes += (idle_nodes.empty() ? "" : ", ") + nodes[i].name;
  }
  if (idle > 0) {
    plan->warnings.push_back(std::to_string(idle) + " of " + std::to_string(nodes.size()) + " nodes get" +
                             (idle == 1 ? "s" : "") + " no learner: " + idle_nodes + (idle > 5 ? ", ..." : ""));
  }
  const int64_t used = static_cast<int64_t>(plan->learner_count()) * plan->gpus_per_learner;
  if (gpus_known && gpus > used)
    plan->warnings.push_back(std::to_string(gpus - used) + " of " + count_text(gpus, "GPU") +
                             (gpus - used == 1 ? " is" : " are") + " not used by this dlrun");
  if (overcommit || (!plan->under_slurm && cpus > 0 && plan->world_size() > cpus)) {
    const bool one = plan->world_size() == 1;  // beside other dlruns of the job
    const std::string who =
        plan->pool ? count_text(plan->learner_count(), "learner") + " and up to " + count_text(plan->servers, "server")
                   : count_text(plan->world_size(), "learner");
    plan->warnings.push_back(who + (one ? " has to share " : " share ") + count_text(cpus, "CPU") +
                             (plan->under_slurm ? "; ask for more with --cpus-per-task or --cpus-per-gpu" : ""));
  }
}

bool has_torch(const LaunchPlan& plan) {
  return std::find(plan.families.begin(), plan.families.end(), "torch") != plan.families.end();
}

void warn_about_request(const PlanInput& input, LaunchPlan* plan) {
  if (!plan->checkpoint && plan->restarts > 0) {
    plan->warnings.emplace_back("restarts without a checkpoint begin at train step 0 again; add --checkpoint=PATH");
  }
  if (!plan->checkpoint && plan->asked.elastic()) {
    plan->warnings.emplace_back(
        "an elastic job without a checkpoint begins at train step 0 again when it is resized; add --checkpoint=PATH");
  }
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    auto found = input.environment.find(name);
    if (found != input.environment.end() && !found->second.empty() && has_torch(*plan)) {
      plan->warnings.push_back(std::string(name) + "=" + printable(found->second) +
                               " is set in your environment and stays; unset it to have one chosen for each run");
    }
  }
}

Status check_input(const PlanInput& input) {
  if (input.command.empty() || input.command[0].empty()) {
    return Error{Errc::kInvalid, "no command is given; needed: dlrun [options] -- COMMAND [arguments]"};
  }
  if (input.work_dir.empty() || input.work_dir[0] != '/') {
    return Error{Errc::kInternal, "the working directory '" + printable(input.work_dir) + "' is not absolute"};
  }
  if (input.allocation.nodes.empty()) return Error{Errc::kInternal, "the allocation has no node"};
  return {};
}

// An elastic pool is no part of a world whose size cannot change. dlrun's own PMIx servers leave it out of that of MPI
// programs; mpirun and Slurm's PMIx would count all that they start.
Status check_pool(const PlanInput& input, const LaunchPlan& plan, const FrameworkEntry& entry) {
  if (!plan.pool) return {};
  const std::string asked = "--servers " + format_servers(*plan.pool) + ": ";
  const bool mpi = entry.launch == "mpi" || input.command_uses_mpi;
  if (mpi && (!plan.under_slurm || input.pmix_server.empty()))
    return Error{
        Errc::kConflict,
        asked + "servers that come and go cannot be ranks of an MPI world, and " +
            (entry.launch == "mpi" ? "framework " + plan.framework + " starts one"
                                   : std::string("this program is one of MPI")) +
            (plan.under_slurm ? ", which only dlrun's own PMIx servers leave them out of; allowed: --servers N, "
                                "or pmix = \"dlrun\" in dl.toml, where dl-pmix is installed"
                              : ", which mpirun starts outside of Slurm; allowed: --servers N, or a Slurm job")};
  if (plan.first_decides)
    return Error{Errc::kConflict, asked + "framework " + plan.framework +
                                      " has parameter servers of its own, whose number cannot change; allowed: "
                                      "--servers N, or --framework generic"};
  return {};
}

Status check_servers(const LaunchPlan& plan) {
  if (plan.servers == 0 || plan.gpus_per_learner == 0 || !plan.under_slurm) return {};
  // srun is given a number of GPUs for each task, and a server is a task, too.
  for (const PlannedNode& node : plan.nodes)
    if (node.gpus != plan.nodes.front().gpus)
      return Error{Errc::kConflict, "parameter servers need nodes that give the same number of GPUs, but " +
                                        plan.nodes.front().name + " gives " + std::to_string(plan.nodes.front().gpus) +
                                        " and " + node.name + " " + std::to_string(node.gpus) +
                                        "; allowed: another number of learners, or --nodes with --ntasks-per-node"};
  return {};
}

void add_bind(const std::string& path, LaunchPlan* plan) {
  if (!path.empty()) plan->container.binds.push_back(path);
}

// Finds the job directory, the checkpoint directory and the folders of event files. All may contain names of the job.
Status find_paths(const PlanInput& input, LaunchPlan* plan) {
  const Allocation& allocation = input.allocation;
  const PathNames names = names_of(input);
  auto job_dir = expand_path(input.site.job_dir, names);
  if (!job_dir) return std::move(job_dir).error().with_context("--job-dir");
  plan->work_dir = absolute_path("/", input.work_dir);
  plan->job_dir = absolute_path(allocation.submit_dir.empty() ? plan->work_dir : allocation.submit_dir, *job_dir);
  if (input.run_number > 1) plan->job_dir += "." + std::to_string(input.run_number);
  auto metrics = expand_metrics(input.request.metrics, names);
  if (!metrics) return std::move(metrics).error().with_context("--metrics");
  plan->metrics = *std::move(metrics);
  plan->checkpoint = input.request.checkpoint;
  if (!plan->checkpoint) return {};
  if (Status expanded = expand_checkpoint(names, &*plan->checkpoint); !expanded)
    return std::move(expanded).error().with_context("--checkpoint");
  plan->checkpoint->path = absolute_path(plan->work_dir, plan->checkpoint->path);
  // The working directory may have what the path itself may not, and each learner would refuse it.
  auto read = parse_checkpoint(format_checkpoint(*plan->checkpoint));
  if (!read) return std::move(read).error().with_context("--checkpoint");
  return {};
}

void copy_request(const PlanInput& input, const Catalogue::Choice& choice, LaunchPlan* plan) {
  const Allocation& allocation = input.allocation;
  plan->job_id = allocation.job_id;
  plan->cluster = allocation.cluster;
  plan->job_name = allocation.job_name;
  plan->under_slurm = allocation.source == Allocation::Source::kSlurm;
  plan->end_time_s = allocation.end_time_s;
  plan->slurm_restart_count = allocation.restart_count;
  plan->framework = choice.entry->name;
  plan->version = choice.version_text;
  plan->families = input.request.alone ? families_alone(choice.entry->families) : choice.entry->families;
  const FamilyNeeds needs = family_needs(plan->families);
  plan->ports = std::max(choice.entry->ports, needs.ports);
  plan->hold_ports = choice.entry->hold_ports;
  plan->peers = needs.peers;
  plan->http_store = needs.http_store;
  plan->servers = input.request.servers.max;
  if (input.request.servers.pool) plan->pool = input.request.servers;
  plan->first_decides = needs.first_decides;
  plan->launcher_store = choice.entry->store == "launcher" && has_torch(*plan);
  if (choice.version != nullptr) plan->activate = choice.version->activate;
  plan->framework_environment = choice.environment();
  plan->metrics.insert(plan->metrics.begin(), choice.entry->metrics.begin(), choice.entry->metrics.end());
  plan->command = input.command;
  plan->container = input.container;
  plan->python_folder = plan->container.image.empty() ? input.python_folder : image::python_folder(plan->job_dir);
  plan->bind = input.request.bind;
  plan->reads_stdin = input.reads_stdin;
  if (!plan->container.image.empty()) {
    for (const std::string& path : {plan->work_dir, plan->job_dir, allocation.submit_dir}) add_bind(path, plan);
    if (plan->checkpoint)
      for (const std::string& path : {plan->checkpoint->path, plan->checkpoint->local}) add_bind(path, plan);
    if (!plan->activate.empty()) {
      plan->warnings.push_back("the image brings its own " + plan->framework + ": '" + printable(plan->activate) +
                               "' is left out");
      plan->activate.clear();
    }
  }
  plan->restarts = input.request.restarts;
  plan->tier = input.request.tier;
  plan->grace = input.site.grace;
}

}  // namespace

const char* launch_method_name(LaunchMethod method) {
  switch (method) {
    case LaunchMethod::kSrun:
      return "srun";
    case LaunchMethod::kMpirun:
      return "mpirun";
    case LaunchMethod::kDirect:
      return "direct";
  }
  return "";
}

Result<LaunchPlan> make_plan(const PlanInput& input) {
  DL_TRY(check_input(input));
  auto chosen = input.catalogue->choose(input.request.framework);
  if (!chosen) return std::move(chosen).error().with_context(input.request.framework_from);
  const RankPlacement* policy = find_rank_placement(input.request.rank_placement);
  if (policy == nullptr) {
    return Error{Errc::kNotFound, "--placement: '" + printable(input.request.rank_placement) +
                                      "' is not a rank placement policy; known: " + rank_placement_names()};
  }
  LaunchPlan plan;
  DL_TRY(find_paths(input, &plan));
  copy_request(input, *chosen, &plan);
  DL_TRY(plan_data(input, &plan));
  plan.rank_placement = policy->name;
  plan.asked = input.request.learners ? *input.request.learners : default_learners(input.allocation);
  if (input.request.gpus) {
    plan.gpus_per_learner = input.request.gpus->count;
    plan.gpu_type = input.request.gpus->type;
  }
  if (input.request.learners_by_gpus) {
    const int each = input.request.gpus ? plan.gpus_per_learner : 1;
    DL_TRY_ASSIGN(const std::optional<LearnerRange> all, learners_by_gpus(input.allocation, each));
    if (all) {
      plan.asked = *all;
      plan.gpus_per_learner = each;
    } else {
      plan.warnings.push_back(
          "--learners auto: " + why_no_gpus(input.allocation, input.request.gpus && input.request.gpus->count == 0) +
          ", so " +
          std::string(plan.asked.max == 1 ? "one learner is" : std::to_string(plan.asked.max) + " learners are") +
          " started" + (plan.under_slurm ? ", as the job has tasks" : "; --learners N starts more"));
    }
  }
  if (input.request.alone && (plan.asked.max > 1 || plan.servers > 0))
    return Error{Errc::kConflict, "--alone: one learner is told no rank, but there are " +
                                      std::to_string(plan.asked.max + plan.servers) +
                                      "; allowed: --learners 1, or without --alone"};
  DL_TRY_ASSIGN(const Capacity capacity,
                find_capacity(input.allocation, plan.asked, plan.gpus_per_learner, plan.servers));
  const std::vector<int> count = place(input, capacity, *policy, &plan);
  // A single learner meets only processes that it starts itself. They choose an address of their own, where they would
  // wait for a store that dlrun does not host.
  if (plan.world_size() == 1 || (plan.pool && plan.learner_count() == 1)) plan.launcher_store = false;
  plan.overcommit = capacity.overcommit || (plan.servers > 0 && is_overcommitted(input.allocation, count));
  DL_TRY(check_pool(input, plan, *chosen->entry));
  DL_TRY(check_servers(plan));
  DL_TRY(check_program_input(plan));
  DL_TRY(check_own_nodes(plan));
  DL_TRY(choose_batch(input.request, &plan));
  if (plan.under_slurm) describe_step(&plan);
  plan.cpus_per_learner = find_cpus_per_learner(input.allocation, count, plan.gpus_per_learner);

  // Before anything starts: an entry for a newer slurm-dl may name a family of variables that is not known here.
  Environment probe;
  DL_TRY(add_learner_environment(plan, 0, RunFacts{}, &probe));
  warn_about_use(input, count, plan.overcommit, &plan);
  warn_about_request(input, &plan);
  fill_start_command(input, *chosen->entry, input.allocation, plan.overcommit, &plan);
  return plan;
}

Status leave_out(const std::vector<std::string>& nodes, const LaunchPlan& plan, PlanInput* input) {
  std::vector<Node>& there = input->allocation.nodes;
  const auto left_out = [&](const Node& node) {
    return std::find(nodes.begin(), nodes.end(), node.name) != nodes.end();
  };
  there.erase(std::remove_if(there.begin(), there.end(), left_out), there.end());
  if (there.empty()) return Error{Errc::kConflict, "no node is left without " + compress_hostlist(nodes)};
  input->allocation.nodes_left_out = true;
  // "As many learners as the job has tasks" still means the number that the job was planned with.
  if (!input->request.learners) input->request.learners = plan.asked;
  return {};
}

Result<LaunchPlan> make_plan_without(const std::vector<std::string>& nodes, const LaunchPlan& plan, PlanInput* input) {
  DL_TRY(leave_out(nodes, plan, input));
  return make_plan(*input);
}

std::string describe_without(const std::vector<std::string>& nodes, const LaunchPlan& plan) {
  std::vector<std::string> names;
  names.reserve(plan.nodes.size());
  for (const PlannedNode& node : plan.nodes) names.push_back(node.name);
  return fmt::format("{} {} left out; {} learner{} on {}", compress_hostlist(nodes), nodes.size() == 1 ? "is" : "are",
                     plan.world_size(), plan.world_size() == 1 ? "" : "s", compress_hostlist(names));
}

}  // namespace dl::plan
