// SPDX-License-Identifier: Apache-2.0
// dlctl report JOB: one page about a job, which its user sends to others.
#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "common/base/atomic_file.h"
#include "common/base/letters.h"
#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/report_look.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"
#include "launcher/report/page.h"

namespace dl::ctl {
namespace {

struct Options {
  std::string job, dir, file;
};

// why: the text of an error, of which only the cause is told: what comes before it may name a temporary file.
Error cannot_write(const std::string& path, const std::string& why) {
  const size_t cause = why.rfind(": ");
  return Error{Errc::kIo,
               fmt::format("{} cannot be written: {}; name another file with -o FILE, or print the page with "
                           "-o -",
                           printable(path, 300), cause == std::string::npos ? why : why.substr(cause + 2))};
}

// The file itself where `path` is a link to it, since a link is not to be replaced. Refuses what is no regular file:
// with the rights of root a device would be replaced, too.
Result<std::string> file_to_write(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return path;
    return cannot_write(path, errno_error(path, errno).text);
  }
  std::string real = path;
  if (S_ISLNK(status.st_mode)) {
    const std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr), &std::free);
    if (found == nullptr || ::lstat(found.get(), &status) != 0)
      return cannot_write(path, errno_error(path, errno).text);
    real = found.get();
  }
  if (S_ISDIR(status.st_mode)) return cannot_write(path, "it is a folder");
  if (!S_ISREG(status.st_mode)) return cannot_write(path, "it is not a regular file");
  return real;
}

// With the mode that new files of this process have.
Status write_page(const std::string& path, const std::string& page) {
  DL_TRY_ASSIGN(const std::string file, file_to_write(path));
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const Status written = replace_file(file, page, 0666 & ~mask);
  return written ? Status() : Status(cannot_write(path, written.error().text));
}

Status run(const Options& options) {
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
  DL_TRY(write_page(file, page));
  show_letters(locale_is_utf8());
  std::printf("%s\n", printable(file, 4096).c_str());
  return {};
}

}  // namespace

Run add_report(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("JOB", &options->job, "job id, local-..., or path of a job directory").required();
  line->option("-o,--output", &options->file, "where the page goes, - for standard output; default: dl-report-JOB.html")
      .form("FILE");
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
