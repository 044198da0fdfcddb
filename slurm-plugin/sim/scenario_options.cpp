// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/scenario_options.h"

#include <fmt/core.h>

#include "common/base/parse.h"

namespace dl::sim {

Status set_time(const char* option, const std::string& text, int64_t* out) {
  if (text.empty()) return {};
  const auto value = parse_duration(text);
  if (!value)
    return Error{Errc::kInvalid,
                 fmt::format("{}: '{}' is not accepted; allowed: a time such as 0s, 90s, 10m, 1h30m, 7d", option,
                             printable(text))};
  *out = value->count();
  return {};
}

std::string title_name(const std::string& path) {
  return printable(path == "-" ? "standard input" : path.substr(path.rfind('/') + 1));
}

void ScenarioOptions::add(CommandLine* line) {
  cluster.add(line);
  line->option("--min-run", &min_run, "a borrowing job is left alone for so long; 10m, or [quota] min_run");
  line->option("--yield", &yield, "from being asked to yield until the GPUs are free; 30s");
  line->option("--requeue", &requeue, "what a resize through the queue costs a job beside its restart; 3s");
  line->option("--join", &join, "from the start of a companion until its job can use it; 4s");
  line->option("--patience", &patience,
               "GPUs are kept for a job that waits longer; 1h, or [quota] patience; 0s: never");
  line->option("--half-life", &half_life, "of use, in the fair share; 7d, or [quota] half_life");
  line->option("--stuck", &stuck, "a deadlock is ended after so long; 1h; 0s: never");
  line->option("--interval", &interval, "time between two decisions; 0s: decide at each event");
  line->option("--mtbf", &mtbf, "a node fails after so long, on average, at random; 0s: never");
  line->option("--repair", &repair, "from a node's failure until it is back; 4h");
  line->option("--unavailable", &unavailable, "part of the nodes that is down all the time")
      .shows_default()
      .between(0.0, 0.99);
  line->option("--seed", &seed, "seed of the failures, and of the order in no-gang-mixed").shows_default();
}

Result<Scenario> ScenarioOptions::scenario(const Trace& trace) const {
  Scenario scenario;
  DL_TRY_ASSIGN(Site site, cluster.site());
  scenario.cluster = std::move(site.cluster);
  scenario.min_run_s = site.min_run_s;
  add_tenants(trace.tenants(), &scenario.cluster);
  set_unavailable(unavailable, &scenario.cluster);
  DL_TRY(set_time("--min-run", min_run, &scenario.min_run_s));
  DL_TRY(set_time("--yield", yield, &scenario.yield_s));
  DL_TRY(set_time("--requeue", requeue, &scenario.requeue_s));
  DL_TRY(set_time("--join", join, &scenario.join_s));
  DL_TRY(set_time("--patience", patience, &scenario.cluster.patience_s));
  DL_TRY(set_time("--half-life", half_life, &scenario.cluster.half_life_s));
  DL_TRY(set_time("--stuck", stuck, &scenario.stuck_s));
  DL_TRY(set_time("--interval", interval, &scenario.interval_s));
  DL_TRY(set_time("--mtbf", mtbf, &scenario.mtbf_s));
  DL_TRY(set_time("--repair", repair, &scenario.repair_s));
  scenario.seed = seed;
  return scenario;
}

}  // namespace dl::sim
