// SPDX-License-Identifier: Apache-2.0
// dlctl usage: the GPU-hours of tenants and users, from Slurm's accounting or from the history of dlpolicyd.
#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/ctl/quota_history.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"
#include "launcher/ctl/usage_rows.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "launcher/slurm_cli/user_settings.h"

namespace dl::ctl {
namespace {

struct UsageOptions {
  std::string account;
  std::string since = "30d";
  std::string file = "/var/lib/dlpolicyd/history.csv";
  bool file_given = false, csv = false, json = false;
};

// What sacct prints of all jobs that ran in the period. kNotFound: Slurm keeps no accounts; kNoSpace: it prints too
// much; else it has failed.
Result<std::string> accounts(const Period& period) {
  const Error none{Errc::kNotFound, "Slurm keeps no accounts of its jobs here (sacct)"};
  if (find_program("sacct").empty()) return none;
  CommandOptions options;
  options.timeout = std::chrono::seconds(120);
  options.max_output = size_t{256} << 20;
  options.environment = {"SLURM_TIME_FORMAT=%s"};
  options.without = slurm_cli::user_settings();
  // Each start of a requeued job has a record of its own (--duplicates).
  auto result = run_command(
      {"sacct", "--allusers", "--allocations", "--duplicates", "--noheader", "--parsable2",
       std::string("--delimiter=") + kUsageCell, fmt::format("--starttime=now-{}seconds", period.to_s - period.from_s),
       "--endtime=now", std::string("--format=") + kUsageFields},
      options);
  if (!result) {
    const Errc code = result.error().code == Errc::kTimeout ? Errc::kTimeout : Errc::kIo;
    return Error{code, "sacct tells nothing: " + result.error().text};
  }
  const std::string why = printable(std::string(trim(result->err)), 200);
  // "Slurm accounting storage is disabled"
  if (!result->ok() && why.find("disabled") != std::string::npos) return Error{Errc::kNotFound, none.text + ": " + why};
  if (!result->ok())
    return Error{Errc::kIo, "sacct tells nothing: " + (why.empty() ? std::string("it failed without a word") : why)};
  if (result->out.size() >= options.max_output)
    return Error{Errc::kNoSpace, "sacct prints more than 256 MiB; allowed: a shorter --since"};
  return std::move(result->out);
}

void say(const std::string& text) {
  std::fprintf(stderr, "dlctl usage: %s\n", text.c_str());
}

// The labels of jobs that run: without them their hours would count as those of nobody.
LabelsById labels_of_running() {
  auto text = slurm_cli::answer_of(
      {"squeue", "-h", "--all", "--states=RUNNING,SUSPENDED", std::string("--Format=") + kSqueueLabels});
  if (text) return labels_of_squeue(*text);
  say("jobs that run count as not charged: " + text.error().text);
  return {};
}

// Why there is no history. told: what else is not known.
Error no_history(const UsageOptions& options, const Error& why, const std::string& told = {}) {
  if (why.code != Errc::kNotFound) return Error{why.code, told + why.text};
  return Error{Errc::kNotFound,
               fmt::format("{}{} has no history of dlpolicyd; allowed: --history-file FILE with a path "
                           "that this machine sees",
                           told, printable(options.file, 200))};
}

Result<Usage> look(const UsageOptions& options, const Period& period) {
  const auto history = observe::read_history(options.file, period.to_s);
  const auto text = accounts(period);
  if (!text && text.error().code == Errc::kNoSpace) return text.error();
  if (history) tell_skipped(options.file, history->skipped);
  if (text) {
    // A site need not let everybody read its history; who names a file wants to see it.
    if (!history && options.file_given) return no_history(options, history.error());
    if (!history && history.error().code != Errc::kNotFound)
      say("no history tells what was lent: " + history.error().text);
    Usage usage = usage_of_accounts(*text, period, labels_of_running());
    if (history) add_lent(history->spans, period, &usage);
    return usage;
  }
  const bool none = text.error().code == Errc::kNotFound;
  if (!history) {
    Error error = no_history(options, history.error(), text.error().text + ", and ");
    if (!none) error.code = text.error().code;
    return error;
  }
  if (!none) say(text.error().text);
  return usage_of_history(history->spans, period);
}

Status run(const UsageOptions& options) {
  if (options.csv && options.json)
    return Error{Errc::kConflict, "--csv and --json exclude each other; allowed: one of them"};
  auto since = parse_duration(options.since);
  if (!since) return std::move(since).error().with_context("--since");
  if (since->count() < 60)
    return Error{Errc::kInvalid,
                 fmt::format("--since: '{}' is too short; allowed: 1m or more", printable(options.since))};
  Period period;
  period.to_s = now_ms() / 1000;
  period.from_s = period.to_s - since->count();
  DL_TRY_ASSIGN(Usage usage, look(options, period));
  if (usage.skipped > 0) say(count_text(usage.skipped, "line") + " of sacct could not be read");
  if (!keep_tenant(options.account, &usage))
    return Error{Errc::kNotFound,
                 fmt::format("'{}' has used no GPUs in the last {} by {}; allowed: another --account or "
                             "a longer --since",
                             printable(options.account), printable(options.since), usage.source)};
  const std::string shown = options.json  ? usage_json(usage, period)
                            : options.csv ? usage_csv(usage)
                                          : usage_text(usage);
  std::fputs(shown.c_str(), stdout);
  return {};
}

}  // namespace

Run add_usage(CommandLine* line) {
  auto options = std::make_shared<UsageOptions>();
  line->option("--account", &options->account, "only this tenant").form("NAME");
  line->option("--since", &options->since, "how far back, such as 24h or 30d").form("TIME").shows_default();
  line->flag("--csv", &options->csv, "as comma-separated values");
  line->flag("--json", &options->json, "for programs");
  line->option("--history-file", &options->file, "where dlpolicyd keeps its history")
      .form("FILE")
      .shows_default()
      .marks(&options->file_given);
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
