// SPDX-License-Identifier: Apache-2.0
// dlctl report JOB: one page about a job, which its user sends to others.
#include <cerrno>
#include <cstdio>
#include <memory>

#include "common/base/letters.h"
#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/output_file.h"
#include "launcher/ctl/report_look.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"
#include "launcher/report/page.h"

namespace dl::ctl {
namespace {

struct ReportOptions {
  std::string job, dir, file;
};

Status run(const ReportOptions& options) {
  DL_TRY_ASSIGN(const Job job, find_run(options.job, options.dir));
  DL_TRY(act_as_owner(job));
  show_letters(true);  // whatever the terminal's letters are: the page is UTF-8
  const report::ReportData data = look_for_report(job, now_ms());
  const std::string page = report::page_of(data);
  if (options.file == "-") {
    const bool whole = std::fwrite(page.data(), 1, page.size(), stdout) == page.size() && std::fflush(stdout) == 0;
    return whole ? Status() : Status(errno_error("standard output", errno));
  }
  const std::string file = options.file.empty() ? report::page_name(data.job) : options.file;
  DL_TRY(write_output_file(file, page));
  show_letters(locale_is_utf8());
  std::printf("%s\n", printable(file, 4096).c_str());
  return {};
}

}  // namespace

Run add_report(CommandLine* line) {
  auto options = std::make_shared<ReportOptions>();
  line->argument("JOB", &options->job, "job id, local-..., or path of a job directory").required();
  line->option("-o,--output", &options->file, "where the page goes, - for standard output; default: dl-report-JOB.html")
      .form("FILE");
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
