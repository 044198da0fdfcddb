// SPDX-License-Identifier: Apache-2.0
// dlsim import sacct
#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "slurm-plugin/sim/command.h"
#include "slurm-plugin/sim/import/sacct.h"

namespace dl::sim {
namespace {

struct ImportWords {
  std::string source;
  std::string path = "-";
  bool command = false;
  std::string checkpoint = "0s";
  std::string restart = "60s";
  std::string requeued = "sum";
  std::string format = "csv";
  std::string output = "-";
  bool json = false;
};

Result<int64_t> seconds(const char* option, const std::string& text) {
  const auto value = parse_duration(text);
  if (!value)
    return Error{Errc::kInvalid, fmt::format("{}: '{}' is not accepted; allowed: a time such as 0s, 90s, 10m, 1h30m",
                                             option, printable(text))};
  return value->count();
}

// Reads the input line by line. A line that is too long is not kept as a whole, since the input may be hostile.
Status read_lines(const std::string& path, SacctReader* reader) {
  const bool standard = path == "-";
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> opened(standard ? nullptr : std::fopen(path.c_str(), "re"), close);
  if (!standard && !opened) return errno_error("open " + printable(path, 200), errno);
  std::FILE* file = standard ? stdin : opened.get();
  constexpr size_t kTooLong = 128 * 1024;  // the reader refuses a line of this length, and says which it is
  std::string line;
  std::vector<char> buffer(1 << 16);
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), file)) {
    std::string_view rest(buffer.data(), n);
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      line += rest.substr(0, end);
      rest.remove_prefix(end + 1);
      DL_TRY(reader->line(line));
      line.clear();
    }
    line += rest;
    if (line.size() > kTooLong) return reader->line(line);
  }
  if (std::ferror(file) != 0) return errno_error("read " + printable(path, 200), errno);
  return line.empty() ? Status() : reader->line(line);
}

Json counts(const ImportCounts& counts) {
  Json all = Json::object();
  for (const auto& [what, count] : counts) all[what] = count;
  return all;
}

std::string said(const Trace& trace, const SacctReader& reader, bool json) {
  if (json)
    return Json{{"jobs", trace.jobs.size()},
                {"lines", reader.lines()},
                {"left_out", counts(reader.left_out())},
                {"changed", counts(reader.changed())}}
               .dump(1) +
           "\n";
  std::string text =
      fmt::format("{} jobs of {} tenants from {} lines\n", trace.jobs.size(), trace.tenants().size(), reader.lines());
  for (const auto& [what, count] : reader.left_out()) text += fmt::format("left out: {} {}\n", count, what);
  for (const auto& [what, count] : reader.changed()) text += fmt::format("changed: {} {}\n", count, what);
  return text;
}

Status import(const ImportWords& options) {
  if (options.command) return write_text("-", sacct_command() + "\n");
  ImportOptions how;
  DL_TRY_ASSIGN(how.checkpoint_s, seconds("--checkpoint", options.checkpoint));
  DL_TRY_ASSIGN(how.restart_s, seconds("--restart", options.restart));
  how.last_attempt = options.requeued == "last";
  SacctReader reader(options.path == "-" ? "standard input" : options.path);
  DL_TRY(read_lines(options.path, &reader));
  DL_TRY_ASSIGN(const Trace trace, reader.end(how));
  std::string text;
  DL_TRY(print_trace(trace, options.format == "csv" ? TraceFormat::kCsv : TraceFormat::kJsonLines,
                     [&](std::string_view piece) -> Status {
                       text += piece;
                       return {};
                     }));
  DL_TRY(write_text(options.output, text));
  const std::string summary = said(trace, reader, options.json);
  // If the trace goes to stdout, the summary goes to stderr, so that the two do not mix.
  if (options.output != "-") return write_text("-", summary);
  std::fputs(summary.c_str(), stderr);
  return {};
}

}  // namespace

Run add_import(CommandLine* line) {
  auto options = std::make_shared<ImportWords>();
  line->argument("SOURCE", &options->source, "sacct: what Slurm's accounting knows of jobs")
      .required()
      .among({"sacct"});
  line->argument("FILE", &options->path, "what the command printed; - is standard input");
  line->flag("--command", &options->command, "print the sacct command whose output is read, and end");
  line->option("--checkpoint", &options->checkpoint, "all jobs save so often, which sacct does not know; 0s: never")
      .form("TIME")
      .shows_default();
  line->option("--restart", &options->restart, "from a pause until they train again").form("TIME").shows_default();
  line->option("--requeued", &options->requeued, "run time of a job with several attempts: sum of them, or the last")
      .shows_default()
      .among({"sum", "last"});
  line->option("--format", &options->format, "csv or json (one object per line)")
      .shows_default()
      .among({"csv", "json"});
  line->option("-o,--output", &options->output, "file; - is standard output").form("FILE").shows_default();
  line->flag("--json", &options->json, "what was left out and changed, for programs");
  line->footer("For a month of jobs: sh -c \"$(dlsim import sacct --command)\" | dlsim import sacct - -o trace.csv");
  return [options] { return import(*options); };
}

}  // namespace dl::sim
