// SPDX-License-Identifier: Apache-2.0
// dlsim generate
#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/generate.h"

namespace dl::sim {
namespace {

struct Options {
  ClusterOptions cluster;
  Shape shape;
  std::string format = "csv";
  std::string output = "-";
};

Status generate_trace(const Options& options) {
  if (options.shape.guaranteed + options.shape.borrow > 1)
    return Error{Errc::kInvalid, "--guaranteed and --borrow together are more than 1; allowed: parts of all jobs"};
  DL_TRY_ASSIGN(const Site site, options.cluster.site());
  const Trace trace = generate(options.shape, site.cluster);
  std::string text;
  const TraceFormat format = options.format == "csv" ? TraceFormat::kCsv : TraceFormat::kJsonLines;
  DL_TRY(print_trace(trace, format, [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  }));
  return write_text(options.output, text);
}

}  // namespace

Run add_generate(CLI::App* app) {
  auto options = std::make_shared<Options>();
  app->add_option("--days", options->shape.days, "days of submissions")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 3660.0));
  app->add_option("--load", options->shape.load, "GPU-time asked for, as a part of what the cluster has")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 10.0));
  app->add_option("--seed", options->shape.seed, "the same seed makes the same trace")->capture_default_str();
  app->add_option("--tenants", options->shape.tenants, "tenants, t1 being the largest")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app->add_option("--guaranteed", options->shape.guaranteed, "part of the jobs in tier guaranteed")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app->add_option("--borrow", options->shape.borrow, "part of the jobs in tier borrow")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  options->cluster.add(app);
  app->add_option("--format", options->format, "csv or json (one object per line)")
      ->capture_default_str()
      ->check(CLI::IsMember({"csv", "json"}));
  app->add_option("-o,--output", options->output, "file; - is standard output")->capture_default_str();
  return [options] { return generate_trace(*options); };
}

}  // namespace dl::sim
