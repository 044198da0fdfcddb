// SPDX-License-Identifier: Apache-2.0
// dlsim sweep
#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/cli/progress_bar.h"
#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/engine/engine.h"
#include "slurm-plugin/sim/generate.h"
#include "slurm-plugin/sim/number_list.h"
#include "slurm-plugin/sim/sweep/load_sweep.h"

namespace dl::sim {
namespace {

struct SweepOptions {
  // By default two clusters of 400 GPUs, with nodes of 4 and of 8: a job that fits on a node of 8 may not fit on one of
  // 4.
  std::vector<std::string> nodes;
  std::string policies = "backfill,backfill-spread";
  std::string loads = "0.4,0.5,0.55,0.6,0.65,0.7,0.75,0.8,0.85,0.9";
  double days = 30;
  int seeds = 3;
  uint64_t seed = 1;
  double confidence = 95;
  bool json = false;
  std::string plot;
};

struct Sample {
  std::vector<double> long_waits, waits, used;
  int64_t jobs = 0;
};

Status add_sample(const Trace& trace, const SimPolicy& policy, const Scenario& scenario, Sample* sample) {
  DL_TRY_ASSIGN(const Outcome outcome, replay(trace, policy, scenario));
  sample->jobs += outcome.jobs;
  sample->long_waits.push_back(static_cast<double>(outcome.waited_15m) / static_cast<double>(outcome.jobs));
  sample->waits.push_back(outcome.queue.mean);
  sample->used.push_back(outcome.utilisation);
  return {};
}

Result<Scenario> cluster_of(const std::string& nodes) {
  Scenario scenario;
  scenario.cluster.patience_s = Site().cluster.patience_s;
  if (Status set = set_nodes(nodes, &scenario.cluster); !set) return std::move(set).error().with_context("--nodes");
  set_switches(ClusterOptions().per_switch, &scenario.cluster);
  return scenario;
}

Result<std::vector<LoadRow>> rows_of(const SweepOptions& options, const std::vector<double>& loads,
                                     const std::vector<const SimPolicy*>& policies) {
  std::vector<LoadRow> rows;
  const double all = static_cast<double>(options.nodes.size() * loads.size());
  double done = 0;
  ProgressBar bar("sweep");
  for (const std::string& nodes : options.nodes) {
    DL_TRY_ASSIGN(const Scenario empty, cluster_of(nodes));
    for (const double load : loads) {
      bar.show(done++ / all, [](double) { return std::string(); });
      std::vector<Sample> samples(policies.size());
      for (int i = 0; i < options.seeds; ++i) {
        Shape shape;
        shape.seed = options.seed + static_cast<uint64_t>(i);
        shape.days = options.days;
        shape.load = load;
        const Trace trace = generate(shape, empty.cluster);
        Scenario scenario = empty;
        add_tenants(trace.tenants(), &scenario.cluster);
        for (size_t p = 0; p < policies.size(); ++p) DL_TRY(add_sample(trace, *policies[p], scenario, &samples[p]));
      }
      const double level = options.confidence / 100;
      for (size_t p = 0; p < policies.size(); ++p) {
        const Sample& sample = samples[p];
        rows.push_back(LoadRow{nodes, load, policies[p]->name, sample.jobs, interval_of_means(sample.long_waits, level),
                               interval_of_means(sample.waits, level), interval_of_means(sample.used, level).mean});
      }
    }
  }
  return rows;
}

Status sweep(SweepOptions options) {
  if (options.nodes.empty()) options.nodes = {"gpu=100x4", "gpu=50x8"};
  DL_TRY_ASSIGN(const std::vector<const SimPolicy*> policies, parse_sim_policies(options.policies));
  DL_TRY_ASSIGN(const std::vector<double> loads, parse_numbers("--load", options.loads, 0.01, 10));
  DL_TRY_ASSIGN(const std::vector<LoadRow> rows, rows_of(options, loads, policies));
  const std::string title = fmt::format("Jobs that wait longer than 15 minutes; {:g} days, {} seeds, {:g} % intervals",
                                        options.days, options.seeds, options.confidence);
  if (!options.plot.empty()) DL_TRY(write_text(options.plot, load_svg(rows, title)));
  if (options.plot == "-") return {};
  const double level = options.confidence / 100;
  return write_text("-", options.json ? load_json(rows, level) : load_table(rows, level));
}

}  // namespace

Run add_sweep(CommandLine* line) {
  auto options = std::make_shared<SweepOptions>();
  line->option("--nodes", &options->nodes,
               "a cluster, TYPE=COUNTxGPUS[,...]; given several times, several of them; gpu=100x4 and gpu=50x8");
  line->option("-p,--policies", &options->policies, "names with commas; ratios are to the first").shows_default();
  line->option("--load", &options->loads, "GPU time asked for, divided by what the cluster has; several with commas")
      .form("X,...")
      .shows_default();
  line->option("--days", &options->days, "days on which jobs are submitted").shows_default().between(0.01, 3660.0);
  line->option("--seeds", &options->seeds, "so many traces at each load").shows_default().between(1, 1000);
  line->option("--seed", &options->seed, "the first of them").shows_default();
  line->option("--confidence", &options->confidence, "what means lie between with so many percent")
      .form("PERCENT")
      .shows_default()
      .between(50.0, 99.9);
  line->flag("--json", &options->json, "everything, for programs");
  line->option("--plot", &options->plot, "write the curves as SVG; - is standard output").form("FILE");
  return [options] { return sweep(*options); };
}

}  // namespace dl::sim
