// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/observe/sizes_now.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/contract/batch_split.h"
#include "common/contract/vote_hint.h"
#include "common/scaling/model.h"
#include "common/scaling/scale_hint.h"

namespace dl::observe {
namespace {

// The batch and the passes of so many learners, as dlrun gives them to the job.
std::optional<scaling::Size> size_of(const policy::JobLabel& label, int learners, int nodes) {
  scaling::Size size;
  size.learners = learners;
  size.nodes = nodes;
  size.batch = learners;
  if (!label.batch) return size;
  const auto split = split_of_job(*label.batch, std::min(label.learners.min, learners), learners);
  if (!split) return std::nullopt;
  size.batch = split->batch;
  size.passes = split->accumulation;
  return size;
}

// Learners on each node; 0: not the same number everywhere, or not known.
int learners_per_node(const policy::Job& job, const JobRecord& record) {
  if (!job.running) return record.node_gpus / job.gpus_per_learner;
  const int each = job.parts.front().learners;
  const bool same = std::all_of(job.parts.begin(), job.parts.end(),
                                [each](const policy::Part& part) { return part.learners == each; });
  return same ? each : 0;
}

class OneJob {
 public:
  OneJob(const policy::ClusterState& state, const policy::Job& job, const SeenJob& seen, const JobRecord& record)
      : state_(state),
        job_(job),
        label_(seen.label),
        hint_(scale_hint_in(record.comment)),
        vote_(vote_hint_in(record.comment)) {
    each_ = learners_per_node(job, record);
  }

  int64_t restart_s() const { return hint_.restart_s; }

  // Without speeds: nothing is known.
  policy::JobSpeeds speeds() {
    policy::JobSpeeds known;
    if ((hint_.sizes.empty() && !vote_) || each_ < 1 || !label_.learners.elastic() ||
        label_.max_nodes <= label_.min_nodes)
      return known;
    // The numbers of the hint are of one type of GPU.
    const int type = job_.running ? state_.type_held(job_) : state_.type_count() == 1 ? 0 : job_.type;
    const auto model = fit();
    if (type < 0 || (!model && !vote_)) return known;
    // The numbers of a vote are bounded as those of measurements are.
    const int largest = vote_ ? std::max(*vote_, job_.running ? job_.learners() : 1) : largest_;
    const int least = vote_ ? label_.learners.min : std::max(label_.learners.min, (smallest_ + 1) / 2);
    const int64_t most =
        std::min<int64_t>(label_.learners.max, std::max<int64_t>(2 * int64_t{largest}, largest + each_));
    for (int64_t n = (int64_t{least} + each_ - 1) / each_ * each_; n <= most; n += each_)
      add(model, type, static_cast<int>(n), &known);
    const auto now = size_of(label_, job_.running ? job_.learners() : std::max(largest_, label_.learners.min), 1);
    if (now) known.batch = now->batch;
    known.wanted = vote_.value_or(0);
    known.age_s = static_cast<double>(std::max<int64_t>(0, state_.now_s - job_.submit_s));
    return known;
  }

 private:
  std::optional<scaling::Model> fit() {
    std::vector<scaling::Measured> measured;
    for (const ScaleHint::Size& one : hint_.sizes) {
      const auto size = size_of(label_, one.learners, one.nodes);
      if (!size) continue;
      scaling::add({*size, one.step_s, 0, 1, 1}, &measured);
      smallest_ = smallest_ == 0 ? one.learners : std::min(smallest_, one.learners);
      largest_ = std::max(largest_, one.learners);
    }
    return scaling::Model::fit(measured);
  }

  // By the vote, or else by the model.
  double speed_at(const std::optional<scaling::Model>& model, const scaling::Size& size) const {
    const double learners = size.learners;
    if (vote_) return learners <= *vote_ ? learners : static_cast<double>(*vote_) * *vote_ / learners;
    const double speed = model->predict(size).samples_per_s;
    return label_.batch ? speed * scaling::efficiency(hint_.noise, label_.batch->min, size.batch) : speed;
  }

  void add(const std::optional<scaling::Model>& model, int type, int learners, policy::JobSpeeds* known) const {
    const int nodes = learners / each_;
    if (nodes < label_.min_nodes || nodes > label_.max_nodes || learners > policy::elastic::kMostGpusOfPoint) return;
    if (known->speeds.size() >= static_cast<size_t>(policy::elastic::kMostPointsOfJob)) return;
    const auto size = size_of(label_, learners, nodes);
    if (!size) return;
    const double speed = speed_at(model, *size);
    if (!std::isfinite(speed)) return;
    known->speeds.push_back({type, learners, nodes, size->batch, std::clamp(speed, 1e-9, policy::elastic::kMostValue)});
  }

  const policy::ClusterState& state_;
  const policy::Job& job_;
  const policy::JobLabel& label_;
  const ScaleHint hint_;
  const std::optional<int> vote_;  // learners
  int each_ = 0;
  int smallest_ = 0, largest_ = 0;  // measured numbers of learners
};

}  // namespace

std::vector<policy::JobSpeeds> sizes_now(const Records& records, ClusterView* view) {
  std::vector<policy::JobSpeeds> all;
  for (size_t i = 0; i < view->jobs.size(); ++i) {
    policy::Job& job = view->state.jobs[i];
    const SeenJob& seen = view->jobs[i];
    const JobRecord& record = records.jobs[seen.record];
    if (!seen.label.learners.elastic() || seen.completing || !comes_back(seen.label, record)) continue;
    OneJob one(view->state, job, seen, record);
    policy::JobSpeeds known = one.speeds();
    if (known.speeds.empty()) continue;
    known.job = static_cast<int>(i);
    if (one.restart_s() >= 0) job.restart_s = std::min(one.restart_s() + kRequeueS, policy::kLongestS);
    all.push_back(std::move(known));
  }
  return all;
}

}  // namespace dl::observe
