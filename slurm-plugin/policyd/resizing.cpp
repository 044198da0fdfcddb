// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/resizing.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "common/base/count.h"
#include "common/base/hostlist.h"
#include "slurm-plugin/observe/sizes_now.h"

namespace dl::policyd {

using policy::Job;

namespace {

// The jobs all of whose companions run and stay.
std::vector<policy::Grown> grown_of(const observe::ClusterView& view) {
  std::map<size_t, int> by_record;
  std::vector<policy::Grown> all;
  for (size_t i = 0; i < view.jobs.size(); ++i) by_record[view.jobs[i].record] = static_cast<int>(i);
  for (size_t i = 0; i < view.jobs.size(); ++i) {
    const std::vector<size_t>& records = view.jobs[i].companions;
    if (records.empty()) continue;
    policy::Grown grown{static_cast<int>(i), {}};
    for (const size_t record : records) {
      const auto its = by_record.find(record);
      if (its == by_record.end()) break;
      const observe::SeenJob& seen = view.jobs[its->second];
      if (!view.state.jobs[its->second].running || seen.completing || seen.label.yields) break;
      grown.companions.push_back(its->second);
    }
    if (grown.companions.size() == records.size()) all.push_back(std::move(grown));
  }
  return all;
}

}  // namespace

std::string resize_text(const Job& job, int learners, std::optional<int> wanted) {
  if (wanted)
    return fmt::format("starts again with {} instead of {}: its learners vote for {}", count_text(learners, "learner"),
                       job.learners(), *wanted);
  return fmt::format(
      "starts again with {} instead of {}: by the measured speeds, its tenant's jobs end sooner that way",
      count_text(learners, "learner"), job.learners());
}

std::string growth_text(const policy::ClusterState& state, const policy::Growth& growth) {
  std::vector<std::string> names;
  for (const int node : growth.free) names.push_back(state.nodes[node].name);
  return fmt::format("may grow from {} to {}: {} {} free", growth.before,
                     count_text(growth.before + growth.learners, "learner"), compress_hostlist(names),
                     names.size() == 1 ? "is" : "are");
}

bool Resizing::rests(const observe::ClusterView& view, int job, const policy::SizeOptions& options) const {
  const int64_t rest_s = policy::rest_s(view.state, view.state.jobs[job], options);
  return view.state.now_s < growths_.rests_until_s(view.state.jobs[job].id, rest_s);
}

std::vector<policy::Growth> Resizing::further(const observe::Records& records, const observe::ClusterView& view,
                                              const std::vector<policy::MayGrow>& may,
                                              const policy::SizeOptions& options,
                                              const policy::Decision& decision) const {
  std::vector<policy::Grown> grown = grown_of(view);
  const auto cannot = [&](const policy::Grown& one) {
    return may[one.job] != policy::MayGrow::kYes || view.jobs[one.job].label.yields || rests(view, one.job, options);
  };
  grown.erase(std::remove_if(grown.begin(), grown.end(), cannot), grown.end());
  if (grown.empty()) return {};
  policy::Joined joined = policy::with_companions(view.state, grown);
  observe::ClusterView as_one;
  as_one.state = std::move(joined.state);
  for (size_t i = 0; i < view.jobs.size(); ++i)
    if (joined.index[i] != policy::kNobody) as_one.jobs.push_back(view.jobs[i]);
  std::vector<policy::JobSpeeds> speeds = observe::sizes_now(records, &as_one);
  const auto is_other = [&](const policy::JobSpeeds& known) {
    return std::none_of(joined.grown.begin(), joined.grown.end(),
                        [&](const policy::Grown& one) { return joined.index[one.job] == known.job; });
  };
  speeds.erase(std::remove_if(speeds.begin(), speeds.end(), is_other), speeds.end());
  joined.state = std::move(as_one.state);
  return policy::grow_further(view.state, decision, may, speeds, options, &joined);
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
    growths_.look(job.id, seen.label.grow ? seen.label.grow->offered_s : 0, static_cast<int>(seen.companions.size()),
                  now_s);
    const bool can = in_place && seen.dlrun && !seen.completing && !growths_.refused(job.id, now_s);
    if (can) may[i] = policy::MayGrow::kYes;
  }
  std::vector<policy::JobSpeeds> speeds = observe::sizes_now(records, view);
  policy::SizeOptions options;
  options.each_s = interval_s;
  const auto cannot = [&](const policy::JobSpeeds& known) {
    const observe::SeenJob& seen = view->jobs[known.job];
    const Job& job = view->state.jobs[known.job];
    // A job with companions is larger than what Slurm shows of the job itself.
    if (job.running && (!seen.companions.empty() || rests(*view, known.job, options))) return true;
    // Without a dlrun nobody would hear what is asked of the job.
    return !policy::may_choose_size(job, seen.dlrun, seen.label.yields, refusals_.refused(job.id, now_s));
  };
  speeds.erase(std::remove_if(speeds.begin(), speeds.end(), cannot), speeds.end());
  policy::SteadySizes sizes = policy::decide_steadily(&view->state, speeds, options);
  NewSizes answer;
  if (in_place) answer.growths = policy::grow_in_place(view->state, may, &sizes);
  answer.decision = std::move(sizes.decision);
  answer.resizes = std::move(sizes.resizes);
  const policy::Decision& decision = answer.decision;
  const bool quiet = decision.starts.empty() && decision.reclaims.empty() && answer.resizes.empty();
  if (in_place && quiet && answer.growths.empty()) answer.growths = further(records, *view, may, options, decision);
  return answer;
}

}  // namespace dl::policyd
