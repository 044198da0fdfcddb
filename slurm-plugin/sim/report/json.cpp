// SPDX-License-Identifier: Apache-2.0

#include "common/json/json.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

Json times(const Times& times) {
  return {
      {"count", times.count}, {"mean", times.mean}, {"median", times.median}, {"p95", times.p95}, {"p99", times.p99}};
}

Json interval(const Interval& it) {
  return {{"mean", it.mean}, {"low", it.low}, {"high", it.high}};
}

Json sizes(const Outcome& outcome) {
  Json all = Json::array();
  for (const SizeOutcome& size : outcome.sizes)
    all.push_back(
        {{"gpus", size.name}, {"jobs", size.jobs}, {"queue_s", times(size.queue)}, {"waited_15m", size.waited_15m}});
  return all;
}

Json confidence(const Confidence& it, double level) {
  if (!it.known) return Json(nullptr);
  return {{"level", level},
          {"wait_s", interval(it.wait_s)},
          {"jct_s", interval(it.jct_s)},
          {"waited_15m_part", interval(it.long_waits)},
          {"wait_less_first_s", interval(it.wait_less_first)}};
}

}  // namespace

std::string json_text(const std::vector<Outcome>& outcomes, const std::vector<Judged>& judged, double level) {
  Json all = Json::array();
  for (const Outcome& o : outcomes) {
    Json tenants = Json::array();
    for (const TenantOutcome& t : o.tenants)
      tenants.push_back({{"name", t.name},
                         {"jobs", t.jobs},
                         {"completed", t.completed},
                         {"queue_s", times(t.queue)},
                         {"gpu_hours", t.gpu_hours}});
    Json sure;
    for (const Judged& one : judged)
      if (one.policy == o.policy) sure = confidence(one.confidence, level);
    all.push_back(
        {{"policy", o.policy},
         {"confidence", sure},
         {"jobs", o.jobs},
         {"completed", o.completed},
         {"refused", o.refused},
         {"unfinished", o.unfinished},
         {"queue_s", times(o.queue)},
         {"waited_15m", o.waited_15m},
         {"jct_s", times(o.jct)},
         {"makespan_s", o.makespan_s},
         {"utilisation", o.utilisation},
         {"held_idle", o.held_idle},
         {"fragmentation", o.fragmentation},
         {"stops", o.stops},
         {"shrinks", o.shrinks},
         {"resizes", o.resizes},
         {"grown", o.grown},
         {"given_back", o.given_back},
         {"moves", o.moves},
         {"most_pauses", o.most_pauses},
         {"ping_pong", o.ping_pong},
         {"lost_gpu_hours", o.lost_gpu_h},
         {"node_failures", o.node_failures},
         {"failed", o.failed},
         {"deadlocks", o.deadlocks},
         {"deadlock_s", o.deadlock_s},
         {"withdrawn", o.withdrawn},
         {"decisions", o.decisions},
         {"solver_mean_ms", o.solver_mean_ms},
         {"solver_max_ms", o.solver_max_ms},
         {"wall_s", o.wall_s},
         {"tenants", tenants},
         {"sizes", sizes(o)},
         {"series",
          {{"bucket_s", o.series.bucket_s}, {"utilisation", o.series.utilisation}, {"queued", o.series.queued}}}});
  }
  return all.dump(1) + "\n";
}

}  // namespace dl::sim
