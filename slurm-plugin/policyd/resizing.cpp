// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/resizing.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/count.h"
#include "slurm-plugin/observe/sizes_now.h"

namespace dl::policyd {

using policy::ClusterState;
using policy::Job;
using policy::JobLabel;

namespace {

// Whether the job was asked in its present attempt.
bool asked_now(const Job& job, const JobLabel& label, const policy::Grace& grace) {
  return resizes_itself(label, job.id) && job.start_s <= label.yields->deadline_s - grace.grace_s;
}

}  // namespace

bool resizes_itself(const JobLabel& label, int64_t job) {
  return label.yields && label.yields->claimant == job;
}

ResizeOrder resize_order(const ClusterState& state, const Job& job, const JobLabel& label, bool claimed, int learners,
                         const policy::Grace& grace) {
  ResizeOrder order;
  if (claimed) return order;
  if (resizes_itself(label, job.id)) {
    const bool goes = asked_now(job, label, grace) && state.now_s <= label.yields->deadline_s + grace.early_s();
    order.step = goes ? ResizeStep::kWait : ResizeStep::kWithdraw;
    return order;
  }
  if (label.yields || learners == 0 || learners == job.learners()) return order;
  order.step = ResizeStep::kAsk;
  order.yield = {job.id, state.now_s + grace.grace_s, learners};
  order.size = {learners, job.submit_s};
  return order;
}

std::string resize_text(const Job& job, int learners) {
  return fmt::format(
      "starts again with {} instead of {}: by the measured speeds, its tenant's jobs end sooner that way",
      count_text(learners, "learner"), job.learners());
}

void Resizing::find_those_that_refused(const observe::ClusterView& view) {
  const int64_t now_s = view.state.now_s;
  for (auto it = refused_.begin(); it != refused_.end();) it = it->second <= now_s ? refused_.erase(it) : std::next(it);
  for (size_t i = 0; i < view.jobs.size(); ++i) {
    const Job& job = view.state.jobs[i];
    const JobLabel& label = view.jobs[i].label;
    if (job.running && resizes_itself(label, job.id) && now_s > label.yields->deadline_s)
      refused_[job.id] = now_s + kRefusedS;
  }
}

policy::SteadySizes Resizing::decide(const observe::Records& records, observe::ClusterView* view, int64_t interval_s) {
  find_those_that_refused(*view);
  std::vector<policy::JobSpeeds> speeds = observe::sizes_now(records, view);
  const auto cannot = [&](const policy::JobSpeeds& known) {
    const observe::SeenJob& seen = view->jobs[known.job];
    const Job& job = view->state.jobs[known.job];
    // Only dlrun hears what is asked. A job that has been asked keeps what it was asked.
    return job.running && (!seen.dlrun || seen.label.yields || refused_.count(job.id) != 0);
  };
  speeds.erase(std::remove_if(speeds.begin(), speeds.end(), cannot), speeds.end());
  policy::SizeOptions options;
  options.each_s = interval_s;
  return policy::decide_steadily(&view->state, speeds, options);
}

}  // namespace dl::policyd
