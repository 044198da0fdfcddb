// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/resizing.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/count.h"
#include "common/base/hostlist.h"
#include "slurm-plugin/observe/sizes_now.h"

namespace dl::policyd {

using policy::Job;

std::string resize_text(const Job& job, int learners) {
  return fmt::format(
      "starts again with {} instead of {}: by the measured speeds, its tenant's jobs end sooner that way",
      count_text(learners, "learner"), job.learners());
}

std::string growth_text(const policy::ClusterState& state, const policy::Growth& growth) {
  std::vector<std::string> names;
  for (const int node : growth.free) names.push_back(state.nodes[node].name);
  const int now = state.jobs[growth.job].learners();
  return fmt::format("may grow from {} to {}: {} {} free", now, count_text(now + growth.learners, "learner"),
                     compress_hostlist(names), names.size() == 1 ? "is" : "are");
}

bool Resizing::rests(const observe::ClusterView& view, int job, const policy::SizeOptions& options) const {
  const int64_t rest_s = policy::rest_s(view.state, view.state.jobs[job], options);
  return view.state.now_s < growths_.rests_until_s(view.state.jobs[job].id, rest_s);
}

NewSizes Resizing::decide(const observe::Records& records, observe::ClusterView* view, int64_t interval_s,
                          bool in_place) {
  const int64_t now_s = view->state.now_s;
  refusals_.tidy(now_s);
  growths_.tidy();
  std::vector<policy::MayGrow> may(view->jobs.size(), policy::MayGrow::kNo);
  for (size_t i = 0; i < view->jobs.size(); ++i) {
    const Job& job = view->state.jobs[i];
    const observe::SeenJob& seen = view->jobs[i];
    if (!job.running) continue;
    if (seen.label.yields) refusals_.look(job, *seen.label.yields, now_s);
    growths_.look(job.id, seen.label.grow ? seen.label.grow->offered_s : 0, seen.grows, now_s);
    const bool can = in_place && seen.dlrun && !seen.completing && !growths_.refused(job.id, now_s);
    if (can) may[i] = policy::MayGrow::kYes;
  }
  std::vector<policy::JobSpeeds> speeds = observe::sizes_now(records, view);
  policy::SizeOptions options;
  options.each_s = interval_s;
  const auto cannot = [&](const policy::JobSpeeds& known) {
    const observe::SeenJob& seen = view->jobs[known.job];
    const Job& job = view->state.jobs[known.job];
    // With a companion it has another size than Slurm shows of the job itself.
    if (job.running && (seen.grows || rests(*view, known.job, options))) return true;
    // Only dlrun hears what is asked.
    return !policy::may_choose_size(job, seen.dlrun, seen.label.yields, refusals_.refused(job.id, now_s));
  };
  speeds.erase(std::remove_if(speeds.begin(), speeds.end(), cannot), speeds.end());
  policy::SteadySizes sizes = policy::decide_steadily(&view->state, speeds, options);
  NewSizes answer;
  if (in_place) answer.growths = policy::grow_in_place(view->state, may, &sizes);
  answer.decision = std::move(sizes.decision);
  answer.resizes = std::move(sizes.resizes);
  return answer;
}

}  // namespace dl::policyd
