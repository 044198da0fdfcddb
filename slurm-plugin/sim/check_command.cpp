// SPDX-License-Identifier: Apache-2.0
// dlsim check, dlsim policies
#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/policies/policies.h"
#include "slurm-plugin/sim/report/report.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {
namespace {

std::string part(int64_t some, size_t all) {
  return fmt::format("{} ({:.1f}%)", some, 100.0 * static_cast<double>(some) / static_cast<double>(all));
}

Status check_trace(const std::string& path) {
  DL_TRY_ASSIGN(const Trace trace, read_trace(path));
  double gpu_s = 0;
  std::vector<double> runs;
  int64_t single = 0;
  int64_t elastic = 0;
  int64_t pausable = 0;
  for (const TraceJob& job : trace.jobs) {
    const auto run = static_cast<double>(job.run_s);
    runs.push_back(run);
    gpu_s += run * job.gpus * job.max_learners;
    single += job.max_learners == 1 ? 1 : 0;
    elastic += job.max_learners != job.min_learners ? 1 : 0;
    pausable += job.checkpoint_s > 0 ? 1 : 0;
  }
  const size_t jobs = trace.jobs.size();
  const Times run = times_of(std::move(runs));
  const auto tenants = trace.tenants();
  const auto types = trace.types();
  const int64_t span = trace.last_submit_s() - trace.jobs.front().submit_s;
  std::string text = fmt::format("jobs       {} in {}\n", jobs, short_time(static_cast<double>(span)));
  text += fmt::format("run time   median {}, mean {}, p99 {}\n", short_time(run.median), short_time(run.mean),
                      short_time(run.p99));
  text += fmt::format("learners   one: {}, elastic: {}\n", part(single, jobs), part(elastic, jobs));
  text += fmt::format("pausable   {}\n", part(pausable, jobs));
  text += fmt::format("work       {:.0f} GPU-hours\n", gpu_s / 3600);
  if (span > 0) text += fmt::format("           {:.1f} GPUs on average\n", gpu_s / static_cast<double>(span));
  text += fmt::format("tenants    {}\n", join(tenants, ", "));
  text += fmt::format("GPU types  {}\n", types.empty() ? "any" : join(types, ", "));
  return write_text("-", text);
}

Status list_policies() {
  size_t width = 0;
  for (const SimPolicy& row : sim_policies()) width = std::max(width, std::string(row.name).size());
  std::string text;
  for (const SimPolicy& row : sim_policies()) text += fmt::format("{:<{}}  {}\n", row.name, width, row.summary);
  return write_text("-", text);
}

}  // namespace

Run add_check(CommandLine* line) {
  auto path = std::make_shared<std::string>();
  line->argument("TRACE", path.get(), "CSV or JSON lines; - is standard input").required();
  return [path] { return check_trace(*path); };
}

Run add_policies(CommandLine* /*line*/) {
  return [] { return list_policies(); };
}

}  // namespace dl::sim
