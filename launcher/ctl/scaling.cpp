// SPDX-License-Identifier: Apache-2.0
// dlctl scaling JOB: how fast a job would train at other sizes, by what was measured of it.
#include <cstdio>
#include <memory>

#include "launcher/ctl/act_as.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/output_file.h"
#include "launcher/ctl/scaling_view.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/record/open_below.h"

namespace dl::ctl {
namespace {

struct ScalingOptions {
  std::string job, dir, svg;
  bool json = false;
};

Status run(const ScalingOptions& options) {
  if (options.json && !options.svg.empty())
    return Error{Errc::kConflict, "--json and --svg exclude one another; allowed: one of them"};
  DL_TRY_ASSIGN(const Job job, find_run(options.job, options.dir));
  if (!job.has_dir())
    return Error{Errc::kNotFound, "the directory of job " + job.name() + " is not known; name it: --dir DIR"};
  DL_TRY(act_as_owner(job));
  auto text = record::read_below(job.dir.root(), job_directory::kScaling, record::kMostScalingBytes);
  if (!text && text.error().code == Errc::kNotFound) text = std::string();
  if (!text) return std::move(text).error();
  record::ScalingRecord record;
  if (!text->empty()) {
    DL_TRY_ASSIGN(record, record::parse_scaling(*text));
  }
  auto view = view_scaling(record);
  if (!view) return std::move(view).error().with_context("job " + job.name());
  if (!options.svg.empty()) return write_output_file(options.svg, scaling_svg(*view, job.name()));
  const std::string answer =
      options.json ? scaling_json(*view, job.name()).dump(2) + "\n" : scaling_text(*view, job.name());
  std::fputs(answer.c_str(), stdout);
  return {};
}

}  // namespace

Run add_scaling(CommandLine* line) {
  auto options = std::make_shared<ScalingOptions>();
  line->argument("JOB", &options->job, "job id, or the path of a job directory").required();
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  line->flag("--json", &options->json, "for programs");
  line->option("--svg", &options->svg, "a picture into this file").form("FILE");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
