// SPDX-License-Identifier: Apache-2.0
// dlsim elastic
#include <fmt/core.h>

#include <algorithm>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/cli/progress_bar.h"
#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/elastic/curves.h"
#include "slurm-plugin/sim/elastic/sweep.h"
#include "slurm-plugin/sim/number_list.h"
#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

struct ElasticOptions {
  int64_t gpus = 400;
  int64_t per_node = 8;
  std::string time = "8h";
  std::string loads = "0.5,1,1.5,2,3";
  std::string admission = "hold,drop";
  std::string categories = "all";
  std::string curves;
  std::string restart = "30s";
  std::string decide = "60s";
  uint64_t seed = 1;
  bool json = false;
  std::string plot;
};

Result<double> seconds(const char* option, const std::string& text, double least, double most) {
  const auto value = parse_duration(text);
  if (!value || static_cast<double>(value->count()) < least || static_cast<double>(value->count()) > most)
    return Error{Errc::kInvalid, fmt::format("{}: '{}' is not accepted; allowed: a time from {} to {}", option,
                                             printable(text), short_time(least), short_time(most))};
  return static_cast<double>(value->count());
}

Result<std::vector<bool>> admissions(const std::string& text) {
  std::vector<bool> found;
  for (const std::string& word : split(text, ',')) {
    if (word != "hold" && word != "drop")
      return Error{Errc::kInvalid,
                   fmt::format("--admission: '{}' is not accepted; allowed: hold, drop", printable(word))};
    found.push_back(word == "drop");
  }
  if (found.empty()) return Error{Errc::kInvalid, "--admission: '' is not accepted; allowed: hold, drop"};
  return found;
}

constexpr size_t kMostCurveBytes = size_t{64} << 20;

Result<std::vector<Category>> chosen_categories(const ElasticOptions& options) {
  if (options.curves.empty()) return parse_categories(options.categories);
  if (options.categories != "all")
    return Error{Errc::kInvalid, "--curves and --categories cannot be given together; allowed: one of them"};
  DL_TRY_ASSIGN(const std::string text, read_small_file(options.curves, kMostCurveBytes));
  auto found = read_curves(text);
  if (!found) return Error{Errc::kInvalid, printable(options.curves) + ": " + found.error().text};
  for (const Category& category : *found) {
    const auto fits = [&](const CurvePoint& point) {
      return point.speed.batch == category.batch && point.gpus <= options.gpus;
    };
    if (std::none_of(category.curve.begin(), category.curve.end(), fits))
      return Error{Errc::kInvalid,
                   fmt::format("{}: '{}' cannot run with its user's batch on {} GPUs; allowed: jobs that can",
                               printable(options.curves), printable(category.name), options.gpus)};
  }
  return found;
}

Status run_sweep(const ElasticOptions& options) {
  Workload workload;
  workload.seed = options.seed;
  if (options.gpus < 1 || options.gpus > 100'000)
    return Error{Errc::kInvalid, fmt::format("--gpus: {} is not accepted; allowed: 1 to 100000", options.gpus)};
  if (options.per_node < 1 || options.per_node > 1024)
    return Error{Errc::kInvalid, fmt::format("--per-node: {} is not accepted; allowed: 1 to 1024", options.per_node)};
  workload.gpus = static_cast<int>(options.gpus);
  workload.gpus_per_node = static_cast<int>(options.per_node);
  DL_TRY_ASSIGN(workload.categories, chosen_categories(options));
  DL_TRY_ASSIGN(const double time_s, seconds("--time", options.time, 60, 366 * 86400.0));
  workload.hours = time_s / 3600;
  Rules rules;
  DL_TRY_ASSIGN(rules.restart_s, seconds("--restart", options.restart, 0, 86400));
  DL_TRY_ASSIGN(rules.decide_s, seconds("--decide", options.decide, 1, 86400));
  DL_TRY_ASSIGN(const std::vector<double> all_loads, parse_numbers("--load", options.loads, 0.01, 100));
  DL_TRY_ASSIGN(const std::vector<bool> all_admissions, admissions(options.admission));
  std::vector<SweepRow> rows;
  const size_t runs = all_loads.size() * all_admissions.size() * elastic_policies().size();
  for (const bool drop : all_admissions) {
    for (const double load : all_loads) {
      for (const ElasticPolicyRow& policy : elastic_policies()) {
        ProgressBar bar(fmt::format("{} at load {:g} ({} of {})", policy.name, load, rows.size() + 1, runs));
        bar.show(static_cast<double>(rows.size()) / static_cast<double>(runs), [](double) { return std::string(); });
        workload.load = load;
        rules.drop = drop;
        rows.push_back({load, drop, replay(workload, policy.policy, rules)});
      }
    }
  }
  if (!options.plot.empty())
    DL_TRY(write_text(
        options.plot,
        sweep_svg(rows, fmt::format("{} GPUs, jobs submitted for {}, categories: {}", workload.gpus, short_time(time_s),
                                    options.curves.empty() ? options.categories : "measured"))));
  return write_text("-", options.json ? sweep_json(rows) : sweep_table(rows));
}

}  // namespace

Run add_elastic(CommandLine* line) {
  auto options = std::make_shared<ElasticOptions>();
  line->option("--gpus", &options->gpus, "GPUs of the cluster").form("N").shows_default();
  line->option("--per-node", &options->per_node, "GPUs of a node").form("N").shows_default();
  line->option("--time", &options->time, "how long jobs are submitted").form("TIME").shows_default();
  line->option("--load", &options->loads, "GPU time asked for, divided by what the cluster has; several with commas")
      .form("X,...")
      .shows_default();
  line->option("--admission", &options->admission, "a job without room waits (hold) or is dropped")
      .form("NAMES")
      .shows_default();
  line->option("--categories", &options->categories, "categories of jobs, by name").form("NAMES").shows_default();
  line->option("--curves", &options->curves, "jobs with measured speeds, in place of categories").form("FILE");
  line->option("--restart", &options->restart, "what a resize costs a job").form("TIME").shows_default();
  line->option("--decide", &options->decide, "least time between two decisions").form("TIME").shows_default();
  line->option("--seed", &options->seed, "another seed gives other jobs").form("N").shows_default();
  line->flag("--json", &options->json, "print JSON");
  line->option("--plot", &options->plot, "write a picture (SVG)").form("FILE");
  return [options] { return run_sweep(*options); };
}

}  // namespace dl::sim
