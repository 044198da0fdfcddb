// SPDX-License-Identifier: Apache-2.0

#include "common/json/json.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

Json times(const Times& times) {
  return {
      {"count", times.count}, {"mean", times.mean}, {"median", times.median}, {"p95", times.p95}, {"p99", times.p99}};
}

}  // namespace

std::string json_text(const std::vector<Outcome>& outcomes) {
  Json all = Json::array();
  for (const Outcome& o : outcomes) {
    Json tenants = Json::array();
    for (const TenantOutcome& t : o.tenants)
      tenants.push_back({{"name", t.name},
                         {"jobs", t.jobs},
                         {"completed", t.completed},
                         {"queue_s", times(t.queue)},
                         {"gpu_hours", t.gpu_hours}});
    all.push_back(
        {{"policy", o.policy},
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
         {"moves", o.moves},
         {"most_pauses", o.most_pauses},
         {"ping_pong", o.ping_pong},
         {"lost_gpu_hours", o.lost_gpu_h},
         {"deadlocks", o.deadlocks},
         {"deadlock_s", o.deadlock_s},
         {"withdrawn", o.withdrawn},
         {"decisions", o.decisions},
         {"solver_mean_ms", o.solver_mean_ms},
         {"solver_max_ms", o.solver_max_ms},
         {"wall_s", o.wall_s},
         {"tenants", tenants},
         {"series",
          {{"bucket_s", o.series.bucket_s}, {"utilisation", o.series.utilisation}, {"queued", o.series.queued}}}});
  }
  return all.dump(1) + "\n";
}

}  // namespace dl::sim
