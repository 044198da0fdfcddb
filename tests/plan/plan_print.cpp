// SPDX-License-Identifier: Apache-2.0
// Prints the launch plan for the environment and options it is given, on a machine that is always the same one: what
// the golden plans are compared with. `--rounds N` plans N times and prints the median time instead (tests/bench).
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common/cli/command_line.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/print.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace {

using namespace dl;        // NOLINT(google-build-using-namespace)
using namespace dl::plan;  // NOLINT(google-build-using-namespace)

struct Options {
  RequestOptions request;
  std::vector<std::string> catalogue;
  std::string scontrol;
  int cpus = 8;
  int gpus = -1;
  int rounds = 0;
  bool json = false;
  std::vector<std::string> command;
};

Environment read_environ() {
  Environment environment;
  for (char** item = environ; *item != nullptr; ++item) {
    const std::string text = *item;
    const size_t equal = text.find('=');
    if (equal != std::string::npos) environment[text.substr(0, equal)] = text.substr(equal + 1);
  }
  return environment;
}

Result<PlanInput> read_input(const Options& options, const Catalogue& catalogue) {
  PlanInput input;
  input.environment = read_environ();
  input.catalogue = &catalogue;
  input.command = options.command;
  input.work_dir = "/home/ada/digits";
  input.agent_path = "/usr/libexec/slurm-dl/dl-agent";
  DL_TRY_ASSIGN(input.request, read_request(input.environment, options.request, input.site));
  if (input.request.data) input.sources = {input.request.data->source};
  input.data_program = "/usr/libexec/slurm-dl/dl-data";
  input.uid = 1000;
  if (in_slurm_job(input.environment)) {
    DL_TRY_ASSIGN(input.allocation, allocation_from_slurm(input.environment));
    if (!options.scontrol.empty()) {
      DL_TRY_ASSIGN(const slurm_cli::JobText job, slurm_cli::parse_job_text(options.scontrol, input.allocation.job_id));
      refine_from_scontrol(job, &input.allocation);
    }
  } else {
    input.allocation =
        local_allocation("workstation", options.cpus, options.gpus, "local-20261121-030000-4711", input.work_dir);
  }
  return input;
}

Status run(const Options& options) {
  DL_TRY_ASSIGN(const Catalogue catalogue, Catalogue::load(options.catalogue));
  DL_TRY_ASSIGN(const PlanInput input, read_input(options, catalogue));
  RunFacts facts;
  facts.run_id = "RUN-ID";
  DL_TRY_ASSIGN(const LaunchPlan plan, make_plan(input));
  if (options.rounds == 0) {
    const std::string text =
        options.json ? plan_json(plan, facts, input.environment) : plan_text(plan, facts, input.environment);
    std::fputs(text.c_str(), stdout);
    return {};
  }
  std::vector<double> times_ms;
  for (int i = 0; i < options.rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    // All of it: the variables are read and parsed again each time.
    DL_TRY_ASSIGN(const PlanInput again, read_input(options, catalogue));
    DL_TRY_ASSIGN(const LaunchPlan timed, make_plan(again));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times_ms.push_back(took.count());
    if (timed.world_size() != plan.world_size()) return Error{Errc::kInternal, "plans differ"};
  }
  std::sort(times_ms.begin(), times_ms.end());
  std::printf("%d learners: median %.3f ms, best %.3f ms, worst %.3f ms of %d plans\n", plan.world_size(),
              times_ms[times_ms.size() / 2], times_ms.front(), times_ms.back(), options.rounds);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine line("plan_print", "print the launch plan of a given environment");
  line.option("--framework", &options.request.framework, "");
  line.option("--learners", &options.request.learners, "");
  line.option("--gpus", &options.request.gpus, "");
  line.option("--batch", &options.request.batch, "");
  line.option("--checkpoint", &options.request.checkpoint, "");
  line.option("--restarts", &options.request.restarts, "");
  line.option("--data", &options.request.data, "");
  line.option("--results", &options.request.results, "");
  line.option("--placement", &options.request.rank_placement, "");
  line.flag("--alone", &options.request.alone, "");
  line.option("--catalogue", &options.catalogue, "folders of entries");
  line.option("--scontrol", &options.scontrol, "what scontrol show job -d printed");
  line.option("--cpus", &options.cpus, "of the machine, without Slurm");
  line.option("--machine-gpus", &options.gpus, "of the machine, without Slurm");
  line.option("--rounds", &options.rounds, "");
  line.flag("--json", &options.json, "");
  line.rest("COMMAND", &options.command, "what the learners run");
  if (const Result<std::string> text = line.parse(argc, argv); !text || !text->empty()) {
    std::fputs(text ? text->c_str() : line.complaint(text.error()).c_str(), stderr);
    return 1;
  }
  const Status status = run(options);
  if (status) return 0;
  std::fprintf(stderr, "error: %s\n", status.error().text.c_str());
  return 2;
}
