// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/start_message.h"

#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "launcher/logs/log_index.h"
#include "launcher/supervise/line_prefix.h"

namespace dl::supervise {

using namespace protocol;

Start start_message(const plan::LaunchPlan& plan, const Attempt& attempt, const record::JobDir& dir, int rank,
                    const StartSettings& settings) {
  const int number = attempt.facts().attempt;
  Start start;
  start.context = plan::learner_context(plan, rank, attempt.facts());
  start.context.ports = attempt.learner(rank).ports;
  start.families = plan.families;
  start.environment = plan.framework_environment;
  start.activate = plan.activate;
  start.command = plan.command;
  start.container = plan.container;
  if (plan.bind != bind::BindMode::kNone) start.bind = bind::bind_name(plan.bind);
  start.log = dir.learner_log(number, rank);
  start.free_ports = !plan.hold_ports;
  if (!settings.debug) {
    start.prefix = plan.world_size() > 1;
    start.line_prefix = line_prefix(plan.world_size(), rank, settings.run);
  }
  start.quiet = settings.quiet || (settings.debug && rank > 0);
  const plan::PlannedNode& node = plan.nodes[static_cast<size_t>(plan.learners[static_cast<size_t>(rank)].node)];
  start.gpus = node.own_gpus;
  start.narrowed = node.narrowed;
  start.serves = plan.serves(rank);
  start.log_limit = settings.log_limit;
  start.log_look_ms = logs::index_interval_ms(static_cast<size_t>(plan.world_size()));
  // Learner 0 speaks for all: what each of a thousand learners prints alike is kept once.
  if (rank == 0 && !plan.serves(rank)) {
    start.series = dir.learner_series(number, rank);
    start.values = dir.learner_values(number, rank);
    start.metrics = plan.metrics;
  }
  start.gpu_look_ms = settings.gpu_look_ms;
  start.use_ms = settings.use_ms;
  start.passed_signal = settings.passed_signal;
  start.hang_ms = plan.serves(rank) ? 0 : settings.hang_ms;  // waiting is the work of a learner that serves
  // Nobody is at the debuggers of the other learners: a breakpoint() would end those learners, and with them the run.
  // Their environment is dlrun's own, so a setting of the user's is kept.
  if (settings.debug && rank > 0 && environment_value("PYTHONBREAKPOINT").empty())
    start.forced["PYTHONBREAKPOINT"] = "0";
  if (plan.checkpoint) start.forced[env::kCheckpoint] = format_checkpoint(*plan.checkpoint);
  if (!settings.lease.empty()) start.forced[env::kLease] = settings.lease;
  return start;
}

}  // namespace dl::supervise
