// SPDX-License-Identifier: Apache-2.0
#include "launcher/guard/requeue.h"

#include <algorithm>
#include <csignal>

#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "launcher/guard/death.h"

namespace dl::guard {
namespace {

// Whether an exit code means that dlrun was killed: "137:0", as its guard or a shell report it, or "0:9", as Slurm
// reports a batch task that was killed itself.
bool of_a_death(const std::string& exit_code) {
  const std::vector<std::string> parts = split(exit_code, ':');
  if (parts.size() != 2) return false;
  const auto code = parse_int(parts[0], 0, 255), signal = parse_int(parts[1], 0, 255);
  if (!code || !signal) return false;
  return is_deadly(static_cast<int>(*signal > 0 ? *signal : *code - 128));
}

// Slurm's reasons for the end of a batch script. For a signal it is "RaisedSignal:9(Killed)" from 23.02 on, and
// JobLaunchFailure before.
bool is_end_of_script(const std::string& reason) {
  return reason == "NonZeroExitCode" || reason == "JobLaunchFailure" || reason.rfind("RaisedSignal:", 0) == 0;
}

}  // namespace

std::chrono::milliseconds patience(Door door) {
  return std::chrono::milliseconds(door == Door::kClosed ? 1500 : 4000);
}

bool may_requeue(const Left& left) {
  const slurm_cli::JobInfo& job = left.job;
  if (!left.control_ours || !left.newest_attempt || !job.batch || !job.requeue || job.restarts != left.restart_count)
    return false;
  if (job.state == "COMPLETING" || job.state == "FAILED")
    return is_end_of_script(job.reason) && of_a_death(job.exit_code);
  const auto nodes = expand_hostlist(job.node_list);
  return job.state == "RUNNING" && nodes && std::find(nodes->begin(), nodes->end(), left.node) != nodes->end();
}

bool says_its_end(const std::vector<record::Event>& events, int attempt) {
  const auto newest = std::find_if(events.rbegin(), events.rend(), [](const auto& event) { return !event.learner; });
  return newest != events.rend() && newest->attempt == attempt &&
         (record::is_final(newest->state) || newest->state == record::JobState::kPending);
}

Cancelled was_cancelled(const Left& left) {
  const slurm_cli::JobInfo& job = left.job;
  if (!left.control_ours || !left.newest_attempt || left.end_recorded || job.restarts != left.restart_count)
    return Cancelled::kNo;
  if (job.state == "CANCELLED") return Cancelled::kYes;
  if (job.state != "COMPLETING" || job.reason != "None") return Cancelled::kNo;
  if (job.exit_code == "0:0") return Cancelled::kNotYet;
  return job.exit_code.rfind("0:", 0) == 0 ? Cancelled::kYes : Cancelled::kNo;
}

}  // namespace dl::guard
