// SPDX-License-Identifier: Apache-2.0
// dlctl metrics JOB...: the values that learners reported, over all attempts: loss, accuracy and whatever else.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/base/letters.h"
#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/metrics_job.h"
#include "launcher/ctl/metrics_plot.h"
#include "launcher/ctl/metrics_view.h"
#include "launcher/ctl/output_file.h"
#include "launcher/ctl/png_picture.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/terminal.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostJobs = 100;

struct MetricsOptions {
  std::vector<std::string> jobs;
  std::string dir, svg, png, marks;
  MetricsChoice choice;
  int rank = -1;
  bool csv = false, json = false, plot = false;
};

// At most one form of output may be chosen.
Status check_forms(const MetricsOptions& options) {
  std::string first;
  for (const auto& [name, given] : {std::pair{"--csv", options.csv},
                                    {"--json", options.json},
                                    {"--plot", options.plot},
                                    {"--svg", !options.svg.empty()},
                                    {"--png", !options.png.empty()}}) {
    if (!given) continue;
    if (!first.empty())
      return Error{Errc::kConflict, first + " and " + name + " exclude each other; allowed: one of them"};
    first = name;
  }
  return {};
}

// Braille where the locale has it, else letters, unless the user says what to draw with.
plot::TextStyle style_of(const MetricsOptions& options) {
  constexpr int kOthers = 10, kMostRows = 20;  // lines of the terminal for what is no curve
  const Terminal terminal = standard_output();
  plot::TextStyle style;
  style.width = terminal.columns;
  style.colour = terminal.colour;
  if (terminal.rows > 0) style.rows = std::clamp(terminal.rows - kOthers, 4, kMostRows);
  if (options.marks == "ascii" || (options.marks.empty() && !locale_is_utf8())) style.marks = plot::Marks::kLetters;
  if (options.marks == "blocks") style.marks = plot::Marks::kBlocks;
  return style;
}

Status run(MetricsOptions options) {
  DL_TRY(check_forms(options));
  if (!options.dir.empty() && options.jobs.size() > 1)
    return Error{Errc::kConflict, "--dir names the directory of one job; allowed: one JOB with it"};
  if (options.jobs.size() > kMostJobs)
    return Error{Errc::kInvalid, "too many jobs; allowed: up to " + std::to_string(kMostJobs)};
  if (options.rank >= 0) options.choice.rank = options.rank;
  std::vector<Job> found;
  std::vector<std::string> folders;
  for (const std::string& name : options.jobs) {
    DL_TRY_ASSIGN(Job job, find_run(name, options.dir));
    if (!job.has_dir())
      return Error{Errc::kNotFound, "the directory of job " + job.name() + " is not known; name it: --dir DIR"};
    folders.push_back(job.dir.root());
    found.push_back(std::move(job));
  }
  // Root takes the rights of one user for good, so all jobs have to be that user's.
  DL_TRY(found.size() == 1 ? act_as_owner(found[0]) : act_as_owner_of(folders));
  std::vector<JobMetrics> jobs;
  bool any = false;
  std::string notes;
  for (const Job& job : found) {
    DL_TRY_ASSIGN(JobMetrics its, read_metrics(job, options.choice));
    any = any || !its.curves.empty();
    if (notes.empty() && !its.notes.empty()) notes = its.notes[0];
    jobs.push_back(std::move(its));
  }
  const bool superseded = options.choice.superseded;
  if (options.csv || options.json) {
    const std::string text = options.csv ? metrics_csv(jobs, superseded) : metrics_json(jobs, superseded);
    std::fputs(text.c_str(), stdout);
    return {};
  }
  if (!any) {
    const bool chosen = !options.choice.name.empty() || !options.choice.group.empty() || options.choice.rank;
    if (!chosen && !notes.empty()) return Error{Errc::kNotFound, "no metrics can be shown: " + printable(notes, 300)};
    return Error{Errc::kNotFound, "job " + jobs[0].job +
                                      (chosen ? " has no such metrics; \"dlctl metrics\" without a choice shows all"
                                              : " has no metrics yet: lines such as \"step 10: loss=0.33\" in the "
                                                "output of learner 0 are recognised; see dlctl(1), metrics")};
  }
  if (!options.svg.empty() || !options.png.empty()) show_letters(true);  // whatever the terminal's letters are
  if (!options.svg.empty()) return write_output_file(options.svg, metrics_svg(jobs, superseded));
  if (!options.png.empty()) {
    DL_TRY_ASSIGN(const std::string png, png_of(metrics_drawing(jobs, superseded)));
    return write_output_file(options.png, png);
  }
  const std::string text =
      options.plot ? metrics_plot(jobs, superseded, style_of(options)) : metrics_table(jobs, superseded);
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace

Run add_metrics(CommandLine* line) {
  auto options = std::make_shared<MetricsOptions>();
  line->argument("JOB", &options->jobs, "job ids, or paths of job directories; several are compared").required();
  line->option("--name", &options->choice.name, "only this metric, such as loss or 'acc*'").form("NAME");
  line->option("--group", &options->choice.group, "only this group, such as train, validate or test").form("GROUP");
  line->option("--rank", &options->rank, "only of this rank").form("R").between(0, 999999);
  line->flag("--all", &options->choice.superseded, "with the points that later attempts have superseded");
  line->flag("--plot", &options->plot, "the curves, drawn in the terminal");
  line->option("--marks", &options->marks, "what --plot draws with; braille where the locale has it")
      .form("braille|blocks|ascii")
      .among({"braille", "blocks", "ascii"})
      .needs("--plot");
  line->option("--svg", &options->svg, "the curves as a picture into this file").form("FILE");
  line->option("--png", &options->png, "the same picture as PNG; needs the program rsvg-convert").form("FILE");
  line->flag("--csv", &options->csv, "all points, one a line");
  line->flag("--json", &options->json, "all points, for programs");
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
