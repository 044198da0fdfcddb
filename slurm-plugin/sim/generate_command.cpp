// SPDX-License-Identifier: Apache-2.0
// dlsim generate
#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/generate.h"

namespace dl::sim {
namespace {

struct GenerateOptions {
  ClusterOptions cluster;
  Shape shape;
  std::string format = "csv";
  std::string output = "-";
};

Status generate_trace(const GenerateOptions& options) {
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

Run add_generate(CommandLine* line) {
  auto options = std::make_shared<GenerateOptions>();
  line->option("--days", &options->shape.days, "days on which jobs are submitted")
      .shows_default()
      .between(0.01, 3660.0);
  line->option("--load", &options->shape.load, "GPU-time asked for, as a part of what the cluster has")
      .shows_default()
      .between(0.01, 10.0);
  line->option("--seed", &options->shape.seed, "the same seed makes the same trace").shows_default();
  line->option("--tenants", &options->shape.tenants, "tenants, t1 being the largest").shows_default().between(1, 1000);
  line->option("--guaranteed", &options->shape.guaranteed, "part of the jobs in tier guaranteed")
      .shows_default()
      .between(0.0, 1.0);
  line->option("--borrow", &options->shape.borrow, "part of the jobs in tier borrow").shows_default().between(0.0, 1.0);
  line->option("--serial", &options->shape.serial, "part of elastic jobs' work that more learners do not speed up")
      .shows_default()
      .between(0.0, 1.0);
  options->cluster.add(line);
  line->option("--format", &options->format, "csv or json (one object per line)")
      .shows_default()
      .among({"csv", "json"});
  line->option("-o,--output", &options->output, "file; - is standard output").shows_default();
  return [options] { return generate_trace(*options); };
}

}  // namespace dl::sim
