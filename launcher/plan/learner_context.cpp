// SPDX-License-Identifier: Apache-2.0
// What a planned learner or server is told: its context, and the environment that is composed from it.
#include <algorithm>

#include "common/base/shell_word.h"
#include "common/contract/env_names.h"
#include "launcher/plan/launch_plan.h"

namespace dl::plan {

std::string log_dir(const LaunchPlan& plan, int attempt) {
  return plan.job_dir + "/logs/attempt-" + std::to_string(attempt);
}

std::string learner_log(const LaunchPlan& plan, int attempt, int rank) {
  return log_dir(plan, attempt) + "/learner-" + std::to_string(rank) + ".log";
}

std::string pool_secret(const LaunchPlan& plan) {
  return plan.job_dir + "/pool.secret";
}

LearnerContext learner_context(const LaunchPlan& plan, int rank, const RunFacts& facts) {
  LearnerContext context;
  context.world_size = plan.world_size();
  context.servers = plan.servers;
  context.num_nodes = static_cast<int>(plan.nodes.size());
  if (plan.pool) {
    context.world_size = plan.learner_count();
    context.servers = 0;
    // Learners fill nodes from the first one on, so those without one are the last.
    context.num_nodes = static_cast<int>(std::count_if(
        plan.nodes.begin(), plan.nodes.end(), [&](const PlannedNode& node) { return plan.in_world(node) > 0; }));
    context.pool = format_servers(*plan.pool);
    context.pool_places = plan.servers;
    context.pool_addr = facts.pool_addr;
    context.pool_port = facts.pool_port;
    context.pool_secret = pool_secret(plan);
  }
  context.master_addr = facts.master_addr;
  if (context.master_addr.empty()) {
    context.master_addr = plan.under_slurm ? plan.nodes[static_cast<size_t>(plan.learners[0].node)].name : "127.0.0.1";
  }
  context.master_port = facts.master_port;
  context.coordinator_port = facts.coordinator_port;
  context.ras_port = facts.ras_port;
  context.peers = facts.peers;
  context.launcher_store = plan.launcher_store;
  context.store_addr = facts.store_addr;
  context.store_port = facts.store_port;
  context.http_store_addr = facts.http_store_addr;
  context.http_store_port = facts.http_store_port;
  context.cpus_per_learner = plan.cpus_per_learner;
  context.job_id = plan.job_id;
  context.job_name = plan.job_name;
  context.node_list = plan.node_list;
  context.tasks_per_node = plan.tasks_per_node;
  context.run_id = facts.run_id;
  context.attempt = facts.attempt;
  context.restarts = facts.restarts;
  context.max_restarts = plan.restarts;
  context.job_dir = plan.job_dir;
  context.log_dir = log_dir(plan, facts.attempt);
  context.work_dir = plan.work_dir;
  if (plan.batch) describe_batch(*plan.batch, plan.split, &context);
  if (plan.checkpoint) context.checkpoint_dir = plan.checkpoint->path;
  if (plan.data) context.data_dir = plan.data->dir;
  context.command = shell_words(plan.command);
  move_to_rank(plan, rank, &context);
  return context;
}

void move_to_rank(const LaunchPlan& plan, int rank, LearnerContext* context) {
  const PlannedLearner& learner = plan.learners[static_cast<size_t>(rank)];
  const PlannedNode& node = plan.nodes[static_cast<size_t>(learner.node)];
  const bool server = rank >= plan.learner_count();
  context->rank = rank;
  context->local_rank = learner.local_rank;
  context->local_world_size = plan.in_world(node);
  context->node_rank = learner.node;
  context->cross_rank = server ? 0 : learner.cross_rank;
  context->cross_size = server ? 0 : plan.cross_sizes[static_cast<size_t>(learner.local_rank)];
  context->local_servers = plan.pool ? 0 : node.servers;
  context->node_name = node.name;
  context->gpus_per_learner = server ? 0 : plan.gpus_per_learner;
  context->node_ranks = node.ranks;
}

Status add_job_environment(const LaunchPlan& plan, JobEnvironment* environment) {
  Environment known;
  // This path is absolute. libdlckpt in the learner reads every= and keep= from here, too.
  if (plan.checkpoint) known.emplace(env::kCheckpoint, format_checkpoint(*plan.checkpoint));
  LearnerRecipe recipe;
  recipe.version = &plan.framework_environment;
  recipe.families = &plan.families;
  recipe.python_folder = plan.python_folder;
  recipe.piped = true;
  recipe.known = &known;
  return compose(recipe, environment);
}

Status add_learner_environment(const LaunchPlan& plan, int rank, const RunFacts& facts, Environment* environment) {
  const LearnerContext context = learner_context(plan, rank, facts);
  drop_launcher_variables(environment);
  JobEnvironment job(context, std::move(*environment));
  const Status added = add_job_environment(plan, &job);
  *environment = job.first();
  return added;
}

}  // namespace dl::plan
