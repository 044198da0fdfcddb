// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/leaving.h"

#include <fmt/core.h>

#include "common/base/count.h"
#include "launcher/ctl/text.h"
#include "slurm-plugin/policy/job_id.h"

namespace dl::ctl {
namespace {

bool is_leaving(const ClusterNow& now, size_t job) {
  const policy::Job& its = now.view.state.jobs[job];
  return its.running && its.yields_to != policy::kNobody && now.view.jobs[job].label.yields;
}

std::string line_of(const ClusterNow& now, size_t index) {
  const policy::ClusterState& state = now.view.state;
  const policy::Job& job = state.jobs[index];
  const int gives = (job.learners() - job.yields_until_learners) * job.gpus_per_learner;
  return fmt::format("job {} of '{}' gives {}: {}", policy::job_name(job.id), state.tenants[job.tenant].name,
                     count_text(gives, "GPU"), what_becomes_of(now, static_cast<int>(index)));
}

}  // namespace

std::string what_becomes_of(const ClusterNow& now, int job) {
  const observe::SeenJob& seen = now.view.jobs[static_cast<size_t>(job)];
  std::string when = "within the grace";
  if (is_leaving(now, static_cast<size_t>(job)))
    when = "by " + clock_text(seen.label.yields->deadline_s * 1000, now_ms());
  if (policy::gives_back(seen.label) == policy::GiveBack::kSave)
    return fmt::format("it is asked to save, and goes back into the queue {}", when);
  if (observe::comes_back(seen.label, now.records.jobs[seen.record]))
    return fmt::format("it cannot save; it is put back into the queue {}, and begins anew", when);
  return fmt::format("it can neither save nor be put back into the queue, and is ended {}", when);
}

std::vector<std::string> leaving_for(const ClusterNow& now, int claim) {
  const policy::ClusterState& state = now.view.state;
  const int64_t id = state.jobs[static_cast<size_t>(claim)].id;
  bool waits = false;
  for (const policy::Waiting& waiting : now.decision.waiting)
    if (waiting.job == claim) waits = waiting.reason == policy::Reason::kVictimsLeaving;
  std::vector<std::string> lines, others;
  for (size_t i = 0; waits && i < state.jobs.size(); ++i)
    if (is_leaving(now, i)) (state.jobs[i].yields_to == id ? lines : others).push_back(line_of(now, i));
  lines.insert(lines.end(), others.begin(), others.end());
  return lines;
}

}  // namespace dl::ctl
