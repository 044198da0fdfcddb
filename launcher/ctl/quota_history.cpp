// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_history.h"

#include <fmt/core.h>
#include <strings.h>

#include <cstdio>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "launcher/ctl/history_plot.h"
#include "launcher/ctl/output_file.h"
#include "launcher/ctl/terminal.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

Result<std::vector<observe::TenantSpan>> read(const HistoryOptions& options, const Period& period) {
  auto history = observe::read_history(options.file, period.to_s);
  if (!history) {
    if (history.error().code != Errc::kNotFound) return std::move(history).error();
    return Error{Errc::kNotFound,
                 fmt::format("{} has no history: dlpolicyd writes one (--history-file) on its own machine; allowed: "
                             "--history-file FILE with a path that this machine sees",
                             printable(options.file, 200))};
  }
  tell_skipped(options.file, history->skipped);
  std::vector<observe::TenantSpan> spans;
  std::string known;
  for (const std::string& tenant : tenants_in(history->spans)) known += (known.empty() ? "" : ", ") + tenant;
  bool found = options.tenant.empty();
  for (observe::TenantSpan& span : history->spans) {
    // Slurm, too, ignores the case of the names of accounts.
    if (!options.tenant.empty() && ::strcasecmp(span.tenant.c_str(), options.tenant.c_str()) != 0) continue;
    found = true;
    if (span.time_s + span.span_s > period.from_s) spans.push_back(std::move(span));
  }
  if (!found)
    return Error{Errc::kInvalid, fmt::format("--tenant: nothing is known of '{}'; allowed: {}",
                                             printable(options.tenant), known.empty() ? "none yet" : known)};
  if (spans.empty())
    return Error{Errc::kNotFound, fmt::format("{} tells nothing of the last {}; allowed: a longer --since",
                                              printable(options.file, 200), printable(options.since))};
  return spans;
}

}  // namespace

void tell_skipped(const std::string& file, int lines) {
  if (lines > 0)
    std::fprintf(stderr, "dlctl: %s: %s not of a history and passed over\n", printable(file, 200).c_str(),
                 (count_text(lines, "line") + (lines == 1 ? " is" : " are")).c_str());
}

void add_history_options(CommandLine* line, HistoryOptions* options) {
  line->flag("--history", &options->history, "what tenants held over time, as a chart");
  line->option("--since", &options->since, "with --history: how far back, such as 6h or 7d")
      .form("TIME")
      .shows_default()
      .marks(&options->given);
  line->option("--tenant", &options->tenant, "with --history: only this tenant").form("NAME").marks(&options->given);
  line->option("--svg", &options->svg, "with --history: a picture into this file").form("FILE").marks(&options->given);
  line->flag("--csv", &options->csv, "with --history: as comma-separated values");
  line->option("--history-file", &options->file, "with --history: where dlpolicyd keeps it")
      .form("FILE")
      .shows_default()
      .marks(&options->given);
}

Status show_history(const HistoryOptions& options, bool json) {
  if (!options.history)
    return Error{
        Errc::kConflict,
        "--since, --tenant, --svg, --csv and --history-file need --history; allowed: with it, or none of them"};
  if (static_cast<int>(json) + static_cast<int>(options.csv) + static_cast<int>(!options.svg.empty()) > 1)
    return Error{Errc::kConflict, "--json, --csv and --svg exclude one another; allowed: one of them"};
  auto since = parse_duration(options.since);
  if (!since) return std::move(since).error().with_context("--since");
  if (since->count() < 600)
    return Error{Errc::kInvalid,
                 fmt::format("--since: '{}' is too short; allowed: 10m or more", printable(options.since))};
  Period period;
  period.to_s = now_ms() / 1000;
  period.from_s = period.to_s - since->count();
  DL_TRY_ASSIGN(const auto spans, read(options, period));
  if (!options.svg.empty()) return write_output_file(options.svg, history_svg(spans, period));
  const std::string text = json          ? history_json(spans)
                           : options.csv ? observe::format_history(spans)
                                         : history_text(spans, period, static_cast<size_t>(standard_output().columns));
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace dl::ctl
