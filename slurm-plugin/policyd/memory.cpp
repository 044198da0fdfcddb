// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/memory.h"

#include <algorithm>
#include <limits>

#include "common/base/parse.h"

namespace dl::policyd {

int64_t saved_step(const std::string& comment) {
  const size_t ours = comment.find("dl:");
  if (ours == std::string::npos) return -1;
  constexpr std::string_view kKey = " step=";
  const size_t key = comment.find(kKey, ours);
  if (key == std::string::npos) return -1;
  const std::string_view rest = std::string_view(comment).substr(key + kKey.size());
  const auto step = parse_int(rest.substr(0, rest.find(' ')), 0, std::numeric_limits<int64_t>::max());
  return step ? *step : -1;
}

void CheckpointTimes::update(const observe::Records& records, observe::ClusterView* view) {
  std::map<int64_t, Seen> now;
  for (size_t i = 0; i < view->jobs.size(); ++i) {
    policy::Job& job = view->state.jobs[i];
    if (!job.running) continue;
    const int64_t step = saved_step(records.jobs[view->jobs[i].record].comment);
    Seen seen{job.start_s, step, 0};
    const auto before = seen_.find(job.id);
    if (before != seen_.end() && before->second.start_s == job.start_s) {
      seen.at_s = step > before->second.step ? records.now_s : before->second.at_s;
      seen.step = std::max(step, before->second.step);
    }
    if (seen.at_s != 0) job.checkpoint_s = std::clamp(seen.at_s, job.start_s, records.now_s);
    now[job.id] = seen;
  }
  seen_ = std::move(now);
}

void StuckJobs::update(const observe::ClusterView& view, const policy::Decision& decision) {
  const int64_t now_s = view.state.now_s;
  std::map<int64_t, Try> next;
  const auto keep = [&](int64_t id) -> Try& {
    const auto before = tries_.find(id);
    return next[id] = before == tries_.end() ? Try{} : before->second;
  };
  // While a claim waits for victims, dlpolicyd itself keeps borrowers from starting (planner.cpp), so these are not
  // stuck.
  const bool claims_wait =
      std::any_of(decision.waiting.begin(), decision.waiting.end(), [](const policy::Waiting& waiting) {
        return waiting.reason == policy::Reason::kVictimsLeaving || waiting.reason == policy::Reason::kVictimsProtected;
      });
  std::set<int> starts;
  for (const policy::Start& start : decision.starts)
    if (start.charge == policy::Charge::kOwn || !claims_wait) starts.insert(start.job);
  for (size_t i = 0; i < view.jobs.size(); ++i) {
    const policy::Job& job = view.state.jobs[i];
    if (job.running) continue;
    Try& its = keep(job.id);
    if (starts.count(static_cast<int>(i)) == 0) {
      its.since_s = 0;
    } else if (its.since_s == 0) {
      its.since_s = now_s;
    } else if (now_s - its.since_s >= kPatienceS) {
      its.penalty_s = std::clamp(its.penalty_s * 2, kFirstS, kLongestS);
      its.until_s = now_s + its.penalty_s;
      its.since_s = 0;
    }
  }
  for (const observe::SeenJob& seen : view.aside) keep(seen.id);
  tries_ = std::move(next);
}

std::set<int64_t> StuckJobs::passed_over(int64_t now_s) const {
  std::set<int64_t> jobs;
  for (const auto& [id, its] : tries_)
    if (its.until_s > now_s) jobs.insert(id);
  return jobs;
}

}  // namespace dl::policyd
