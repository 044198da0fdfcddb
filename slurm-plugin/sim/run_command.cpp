// SPDX-License-Identifier: Apache-2.0
// dlsim run
#include <fmt/core.h>

#include <algorithm>

#include "common/cli/progress_bar.h"
#include "slurm-plugin/sim/engine/engine.h"
#include "slurm-plugin/sim/report/report.h"
#include "slurm-plugin/sim/scenario_options.h"
#include "slurm-plugin/sim/world/cluster.h"

namespace dl::sim {
namespace {

struct RunOptions {
  ScenarioOptions scenario;
  std::string trace;
  std::string policies = "all";
  int seeds = 1;
  double confidence = 0;
  bool json = false;
  bool tenants = false;
  bool sizes = false;
  std::string plot;
};

PlotTitle title_of(const RunOptions& options, const Trace& trace, const Scenario& scenario) {
  return PlotTitle{
      fmt::format("{}: {} jobs on {} GPUs", title_name(options.trace), trace.jobs.size(),
                  gpus_in_all(scenario.cluster)),
      fmt::format("{} tenants, {} nodes, submitted within {}", trace.tenants().size(), scenario.cluster.nodes.size(),
                  short_time(static_cast<double>(trace.last_submit_s() - trace.jobs.front().submit_s)))};
}

Status run_trace(const RunOptions& options) {
  DL_TRY_ASSIGN(const std::vector<const SimPolicy*> policies, parse_sim_policies(options.policies));
  DL_TRY_ASSIGN(const Trace trace, read_trace(options.trace));
  DL_TRY_ASSIGN(Scenario scenario, options.scenario.scenario(trace));
  const auto begin = static_cast<double>(trace.jobs.front().submit_s);
  const double span = std::max(1.0, static_cast<double>(trace.last_submit_s()) - begin);
  const size_t seeds = static_cast<size_t>(options.seeds);
  std::vector<Outcome> outcomes;
  for (const SimPolicy* policy : policies) {
    for (size_t i = 0; i < seeds; ++i) {
      scenario.seed = options.scenario.seed + i;
      ProgressBar bar(fmt::format("{} ({} of {})", policy->name, outcomes.size() + 1, policies.size() * seeds));
      Hooks hooks;
      hooks.progress = [&](int64_t now_s) {
        const double part = (static_cast<double>(now_s) - begin) / span;
        bar.show(part, [part](double seconds) {
          return part > 0.01 ? short_time(seconds / part - seconds) + " left" : std::string();
        });
      };
      DL_TRY_ASSIGN(Outcome outcome, replay(trace, *policy, scenario, hooks));
      if (seeds > 1) outcome.policy += fmt::format(" #{}", scenario.seed);
      outcomes.push_back(std::move(outcome));
    }
  }
  if (!options.plot.empty()) DL_TRY(write_text(options.plot, svg_text(outcomes, title_of(options, trace, scenario))));
  if (options.plot == "-") return {};
  const double level = options.confidence / 100;
  std::vector<Judged> judged;
  if (options.confidence > 0) {
    std::vector<std::vector<const Outcome*>> by_policy(policies.size());
    for (size_t i = 0; i < outcomes.size(); ++i) by_policy[i / seeds].push_back(&outcomes[i]);
    const std::vector<Confidence> confidence = confidence_of(trace, by_policy, level);
    for (size_t i = 0; i < policies.size(); ++i) judged.push_back(Judged{policies[i]->name, confidence[i]});
  }
  if (options.json) {
    // The confidence intervals of a policy are the same in its objects for all seeds.
    std::vector<Judged> of_rows;
    for (size_t i = 0; i < outcomes.size() && !judged.empty(); ++i)
      of_rows.push_back(Judged{outcomes[i].policy, judged[i / seeds].confidence});
    return write_text("-", json_text(outcomes, of_rows, level));
  }
  std::string text = table_text(outcomes, options.tenants, options.sizes);
  if (!judged.empty()) text += "\n" + confidence_text(judged, level);
  return write_text("-", text);
}

}  // namespace

Run add_run(CommandLine* line) {
  auto options = std::make_shared<RunOptions>();
  line->argument("TRACE", &options->trace, "CSV or JSON lines; - is standard input").required();
  line->option("-p,--policies", &options->policies, "names with commas, or all (dlsim policies lists them)")
      .shows_default();
  options->scenario.add(line);
  line->option("--seeds", &options->seeds, "replay with so many seeds, from --seed on")
      .shows_default()
      .between(1, 1000);
  line->option("--confidence", &options->confidence,
               "what means lie between with so many percent, by drawing days again: 95")
      .form("PERCENT")
      .between(50.0, 99.9);
  line->flag("--tenants", &options->tenants, "a second table, by tenant");
  line->flag("--sizes", &options->sizes, "a table by GPUs of the jobs");
  line->flag("--json", &options->json, "everything, for programs");
  line->option("--plot", &options->plot, "write an SVG with use and queue over time; - is standard output");
  return [options] { return run_trace(*options); };
}

}  // namespace dl::sim
