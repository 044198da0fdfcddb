// SPDX-License-Identifier: Apache-2.0
// dlsim run
#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/cli/progress_bar.h"
#include "slurm-plugin/sim/cluster.h"
#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/engine/engine.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

struct Options {
  ClusterOptions cluster;
  std::string trace;
  std::string policies = "all";
  // Empty: as the configuration or the scenario has it.
  std::string min_run;
  std::string yield;
  std::string patience;
  std::string half_life;
  std::string stuck;
  uint64_t seed = 1;
  bool json = false;
  bool tenants = false;
  std::string plot;
};

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

Result<Scenario> scenario_of(const Options& options, const Trace& trace) {
  Scenario scenario;
  DL_TRY_ASSIGN(Site site, options.cluster.site());
  scenario.cluster = std::move(site.cluster);
  scenario.min_run_s = site.min_run_s;
  add_tenants(trace.tenants(), &scenario.cluster);
  DL_TRY(set_time("--min-run", options.min_run, &scenario.min_run_s));
  DL_TRY(set_time("--yield", options.yield, &scenario.yield_s));
  DL_TRY(set_time("--patience", options.patience, &scenario.cluster.patience_s));
  DL_TRY(set_time("--half-life", options.half_life, &scenario.cluster.half_life_s));
  DL_TRY(set_time("--stuck", options.stuck, &scenario.stuck_s));
  scenario.seed = options.seed;
  return scenario;
}

PlotTitle title_of(const Options& options, const Trace& trace, const Scenario& scenario) {
  const std::string name = options.trace == "-" ? "standard input" : options.trace.substr(options.trace.rfind('/') + 1);
  return PlotTitle{
      fmt::format("{}: {} jobs on {} GPUs", printable(name), trace.jobs.size(), gpus_in_all(scenario.cluster)),
      fmt::format("{} tenants, {} nodes, submitted within {}", trace.tenants().size(), scenario.cluster.nodes.size(),
                  short_time(static_cast<double>(trace.last_submit_s() - trace.jobs.front().submit_s)))};
}

Status run_trace(const Options& options) {
  DL_TRY_ASSIGN(const std::vector<const SimPolicy*> policies, parse_sim_policies(options.policies));
  DL_TRY_ASSIGN(const Trace trace, read_trace(options.trace));
  DL_TRY_ASSIGN(const Scenario scenario, scenario_of(options, trace));
  const auto begin = static_cast<double>(trace.jobs.front().submit_s);
  const double span = std::max(1.0, static_cast<double>(trace.last_submit_s()) - begin);
  std::vector<Outcome> outcomes;
  for (const SimPolicy* policy : policies) {
    ProgressBar bar(fmt::format("{} ({} of {})", policy->name, outcomes.size() + 1, policies.size()));
    Hooks hooks;
    hooks.progress = [&](int64_t now_s) {
      const double part = (static_cast<double>(now_s) - begin) / span;
      bar.show(part, [part](double seconds) {
        return part > 0.01 ? short_time(seconds / part - seconds) + " left" : std::string();
      });
    };
    DL_TRY_ASSIGN(Outcome outcome, replay(trace, *policy, scenario, hooks));
    outcomes.push_back(std::move(outcome));
  }
  if (!options.plot.empty()) DL_TRY(write_text(options.plot, svg_text(outcomes, title_of(options, trace, scenario))));
  if (options.plot == "-") return {};
  return write_text("-", options.json ? json_text(outcomes) : table_text(outcomes, options.tenants));
}

}  // namespace

Run add_run(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("TRACE", &options->trace, "CSV or JSON lines; - is standard input").required();
  line->option("-p,--policies", &options->policies, "names with commas, or all (dlsim policies lists them)")
      .shows_default();
  options->cluster.add(line);
  line->option("--min-run", &options->min_run, "a borrowing job is left alone for so long; 10m, or [quota] min_run");
  line->option("--yield", &options->yield, "from being asked to yield until the GPUs are free; 30s");
  line->option("--patience", &options->patience,
               "GPUs are kept for a job that waits longer; 1h, or [quota] patience; 0s: never");
  line->option("--half-life", &options->half_life, "of use, in the fair share; 7d, or [quota] half_life");
  line->option("--stuck", &options->stuck, "a deadlock is ended after so long; 1h; 0s: never");
  line->option("--seed", &options->seed, "of the order in no-gang-mixed").shows_default();
  line->flag("--tenants", &options->tenants, "a second table, by tenant");
  line->flag("--json", &options->json, "everything, for programs");
  line->option("--plot", &options->plot, "write an SVG with use and queue over time; - is standard output");
  return [options] { return run_trace(*options); };
}

}  // namespace dl::sim
