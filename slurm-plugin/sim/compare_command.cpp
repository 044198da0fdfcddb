// SPDX-License-Identifier: Apache-2.0
// dlsim compare
#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/cli/progress_bar.h"
#include "common/json/json.h"
#include "slurm-plugin/sim/compare/compare.h"
#include "slurm-plugin/sim/scenario_options.h"

namespace dl::sim {
namespace {

struct CompareOptions {
  ScenarioOptions scenario;
  std::string trace;
  std::string policies = "backfill";
  bool sizes = false;
  bool calibrate = false;
  bool json = false;
  std::string plot;
};

struct Calibrated {
  std::string policy;
  std::string options;
  Calibration found;
};

Result<Outcome> replay_fitted(Trace trace, const SimPolicy& policy, Scenario scenario, const Fitted& fitted) {
  set_unavailable(fitted.unavailable, &scenario.cluster);
  scenario.interval_s = fitted.interval_s;
  scenario.yield_s = fitted.yield_s;
  if (fitted.restart_s >= 0)
    for (TraceJob& job : trace.jobs) job.restart_s = fitted.restart_s;
  return replay(trace, policy, scenario);
}

std::string calibrated_text(const std::vector<Calibrated>& all) {
  std::string text;
  for (const Calibrated& one : all) {
    text += fmt::format(
        "\n{}: fitted to the first half of the time in {} replays: {}\n"
        "  first half: factor {:.2f}, was {:.2f}; second half, which the fit never saw: factor {:.2f}, was {:.2f}\n",
        one.policy, one.found.replays, one.options.empty() ? "nothing is better than what was given" : one.options,
        one.found.first_after, one.found.first_before, one.found.second_after, one.found.second_before);
    if (!one.options.empty() && one.found.second_after >= one.found.second_before)
      text += "  In the second half it is no better: what was fitted is chance, and the options are not to be used.\n";
  }
  return text;
}

Json side(const std::vector<double>& waits) {
  const Times times = times_of(waits);
  const auto over = std::count_if(waits.begin(), waits.end(), [](double wait) { return wait > kLongWaitS; });
  return {{"count", times.count}, {"mean_s", times.mean}, {"median_s", times.median},
          {"p95_s", times.p95},   {"p99_s", times.p99},   {"waited_15m", static_cast<int64_t>(over)}};
}

std::string compare_json(const Trace& trace, const std::vector<Outcome>& outcomes,
                         const std::vector<Calibrated>& calibrated) {
  Json all = Json::array();
  for (const Outcome& outcome : outcomes) {
    const WaitPairs pairs = wait_pairs(trace, outcome, kAll);
    Json sizes = Json::array();
    for (size_t size = 0; size < size_count(); ++size) {
      const WaitPairs of = wait_pairs(trace, outcome, kAll, size);
      if (!of.real.empty())
        sizes.push_back({{"gpus", size_name(size)},
                         {"real", side(of.real)},
                         {"simulated", side(of.simulated)},
                         {"factor", factor_between(of)}});
    }
    Json fit;
    for (const Calibrated& one : calibrated)
      if (one.policy == outcome.policy)
        fit = {{"options", one.options},
               {"replays", one.found.replays},
               {"first_half", {{"before", one.found.first_before}, {"after", one.found.first_after}}},
               {"second_half", {{"before", one.found.second_before}, {"after", one.found.second_after}}}};
    all.push_back({{"policy", outcome.policy},
                   {"real", side(pairs.real)},
                   {"simulated", side(pairs.simulated)},
                   {"factor", factor_between(pairs)},
                   {"sizes", sizes},
                   {"calibration", fit}});
  }
  return all.dump(1) + "\n";
}

Status compare(const CompareOptions& options) {
  DL_TRY_ASSIGN(const std::vector<const SimPolicy*> policies, parse_sim_policies(options.policies));
  DL_TRY_ASSIGN(const Trace trace, read_trace(options.trace));
  if (std::none_of(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& job) { return job.waited_s >= 0; }))
    return Error{Errc::kInvalid, printable(options.trace, 200) +
                                     ": no job tells how long it really waited; allowed: traces with the field "
                                     "'waited', as 'dlsim import sacct' makes them"};
  DL_TRY_ASSIGN(const Scenario scenario, options.scenario.scenario(trace));
  std::vector<Outcome> outcomes;
  std::vector<Calibrated> calibrated;
  for (const SimPolicy* policy : policies) {
    Fitted begin;
    begin.unavailable = options.scenario.unavailable;
    begin.interval_s = scenario.interval_s;
    begin.yield_s = scenario.yield_s;
    Fitted used = begin;
    if (options.calibrate) {
      ProgressBar bar(fmt::format("{}: calibrating", policy->name));
      int most = 1;
      for (const FittedField& field : fitted_fields())
        if (!field.only_quotas || policy->quotas) most += 2 * (field.values - 1);
      int done = 0;
      DL_TRY_ASSIGN(const Calibration found, calibrate(trace, *policy, begin, [&](const Fitted& fitted) {
                      bar.show(static_cast<double>(done++) / most, [](double) { return std::string(); });
                      return replay_fitted(trace, *policy, scenario, fitted);
                    }));
      used = found.best;
      calibrated.push_back(Calibrated{policy->name, options_of(found, begin), found});
    }
    DL_TRY_ASSIGN(Outcome outcome, replay_fitted(trace, *policy, scenario, used));
    outcomes.push_back(std::move(outcome));
  }
  const std::string title = fmt::format("{}: real and simulated waits of {} jobs on {} GPUs", title_name(options.trace),
                                        trace.jobs.size(), gpus_in_all(scenario.cluster));
  if (!options.plot.empty()) DL_TRY(write_text(options.plot, compare_svg(trace, outcomes, title)));
  if (options.plot == "-") return {};
  if (options.json) return write_text("-", compare_json(trace, outcomes, calibrated));
  return write_text("-", compare_text(trace, outcomes, options.sizes) + calibrated_text(calibrated));
}

}  // namespace

Run add_compare(CommandLine* line) {
  auto options = std::make_shared<CompareOptions>();
  line->argument("TRACE", &options->trace, "with the field 'waited', of dlsim import; - is standard input").required();
  line->option("-p,--policies", &options->policies, "names with commas: the one that the cluster had, and others")
      .shows_default();
  options->scenario.add(line);
  line->flag("--sizes", &options->sizes, "rows by GPUs of the jobs, too");
  line->flag("--calibrate", &options->calibrate,
             "find the options that bring simulated waits nearest to real ones in the first half of the time, and say "
             "what they do in the second");
  line->flag("--json", &options->json, "everything, for programs");
  line->option("--plot", &options->plot, "write an SVG of waits, real and simulated; - is standard output");
  return [options] { return compare(*options); };
}

}  // namespace dl::sim
