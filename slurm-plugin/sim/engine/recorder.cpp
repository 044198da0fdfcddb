// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/engine/recorder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dl::sim {
namespace {

constexpr int kBuckets = 160;  // pieces of the time of submissions: one point for every few pixels of the plot

struct SizeClass {
  int64_t most;
  const char* name;
};
constexpr std::array kSizes{SizeClass{1, "1"},      SizeClass{2, "2"},
                            SizeClass{4, "3-4"},    SizeClass{8, "5-8"},
                            SizeClass{16, "9-16"},  SizeClass{32, "17-32"},
                            SizeClass{64, "33-64"}, SizeClass{std::numeric_limits<int64_t>::max(), "65 and more"}};

double rank(const std::vector<double>& sorted, double part) {
  const auto place = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(place, 1) - 1];
}

}  // namespace

size_t size_class(int64_t gpus) {
  size_t at = 0;
  while (gpus > kSizes[at].most) ++at;
  return at;
}
size_t size_count() {
  return kSizes.size();
}
const char* size_name(size_t index) {
  return kSizes[index].name;
}

Times times_of(std::vector<double> values) {
  Times times;
  if (values.empty()) return times;
  std::sort(values.begin(), values.end());
  times.count = static_cast<int64_t>(values.size());
  for (const double value : values) times.mean += value / static_cast<double>(values.size());
  times.median = rank(values, 0.5);
  times.p95 = rank(values, 0.95);
  times.p99 = rank(values, 0.99);
  return times;
}

Recorder::Recorder(const Trace& trace, int gpus)
    : jobs(trace.jobs.size()),
      trace_(trace),
      gpus_(gpus),
      begin_s_(trace.jobs.empty() ? 0 : trace.jobs.front().submit_s),
      window_end_s_(trace.last_submit_s()),
      now_s_(begin_s_) {
  int64_t longest = 1;
  for (const TraceJob& job : trace.jobs) longest = std::max(longest, job.run_s);
  // If all jobs were submitted at once, the last submission does not bound the time that is averaged over.
  const bool at_once = window_end_s_ == begin_s_;
  series_.bucket_s = std::max(1.0, static_cast<double>(at_once ? longest : window_end_s_ - begin_s_) / kBuckets);
  if (at_once) window_end_s_ = std::numeric_limits<int64_t>::max();
}

void Recorder::advance(int64_t now_s, const Levels& levels) {
  if (now_s <= now_s_) return;
  const double elapsed = static_cast<double>(std::min(now_s, window_end_s_) - now_s_);
  if (elapsed > 0) {
    window_s_ += elapsed;
    running_gpu_s_ += elapsed * levels.running;
    idle_gpu_s_ += elapsed * levels.held_idle;
    free_gpu_s_ += elapsed * levels.free;
    unusable_gpu_s_ += elapsed * levels.unusable;
  }
  if (levels.deadlock) counts.deadlock_s += static_cast<double>(now_s - now_s_);
  double from = static_cast<double>(now_s_ - begin_s_);
  const double to = static_cast<double>(now_s - begin_s_);
  while (from < to) {
    const auto bucket = static_cast<size_t>(from / series_.bucket_s);
    const double until = std::min(to, static_cast<double>(bucket + 1) * series_.bucket_s);
    if (bucket >= series_.queued.size()) {
      series_.queued.resize(bucket + 1);
      series_.utilisation.resize(bucket + 1);
    }
    const double part = (until - from) / series_.bucket_s;
    series_.utilisation[bucket] += part * levels.running / gpus_;
    series_.queued[bucket] += part * levels.queued;
    if (until <= from) break;  // rounding made bucket_s vanish beside `from`: cannot happen within 10 years
    from = until;
  }
  now_s_ = now_s;
}

Outcome Recorder::finish(const std::vector<std::string>& tenants) {
  Outcome outcome = counts;
  std::vector<double> queue;
  std::vector<double> jct;
  std::vector<std::vector<double>> queue_of(tenants.size());
  std::vector<std::vector<double>> queue_of_size(kSizes.size());
  std::vector<SizeOutcome> sizes(kSizes.size());
  outcome.waits.assign(jobs.size(), -1);
  outcome.jcts.assign(jobs.size(), -1);
  for (const std::string& name : tenants) {
    TenantOutcome tenant;
    tenant.name = name;
    outcome.tenants.push_back(std::move(tenant));
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    const TraceJob& job = trace_.jobs[i];
    const JobRecord& record = jobs[i];
    const auto whose = static_cast<size_t>(std::find(tenants.begin(), tenants.end(), job.tenant) - tenants.begin());
    TenantOutcome& tenant = outcome.tenants[whose];
    ++outcome.jobs;
    ++tenant.jobs;
    tenant.gpu_hours += record.held_gpu_s / 3600;
    outcome.most_pauses = std::max(outcome.most_pauses, record.pauses);
    if (record.refused) {
      ++outcome.refused;
      continue;
    }
    const size_t size = size_class(int64_t{job.gpus} * job.max_learners);
    ++sizes[size].jobs;
    if (record.first_start_s >= 0) {
      queue.push_back(static_cast<double>(record.first_start_s - job.submit_s));
      queue_of[whose].push_back(queue.back());
      queue_of_size[size].push_back(queue.back());
      outcome.waits[i] = queue.back();
    }
    if (record.first_start_s < 0 || queue.back() > kLongWaitS) {
      ++outcome.waited_15m;
      ++sizes[size].waited_15m;
    }
    if (record.end_s < 0) {
      ++outcome.unfinished;
      continue;
    }
    ++outcome.completed;
    ++tenant.completed;
    jct.push_back(static_cast<double>(record.end_s - job.submit_s));
    outcome.jcts[i] = jct.back();
    outcome.makespan_s = std::max(outcome.makespan_s, static_cast<double>(record.end_s - begin_s_));
  }
  outcome.queue = times_of(std::move(queue));
  outcome.jct = times_of(std::move(jct));
  for (size_t i = 0; i < tenants.size(); ++i) outcome.tenants[i].queue = times_of(std::move(queue_of[i]));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].jobs == 0) continue;
    sizes[i].name = kSizes[i].name;
    sizes[i].queue = times_of(std::move(queue_of_size[i]));
    outcome.sizes.push_back(std::move(sizes[i]));
  }
  if (window_s_ > 0) {
    outcome.utilisation = running_gpu_s_ / window_s_ / gpus_;
    outcome.held_idle = idle_gpu_s_ / window_s_ / gpus_;
  }
  if (free_gpu_s_ > 0) outcome.fragmentation = unusable_gpu_s_ / free_gpu_s_;
  outcome.series = std::move(series_);
  return outcome;
}

}  // namespace dl::sim
