// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_sync.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/quota_orphans.h"
#include "launcher/ctl/quota_plan.h"
#include "launcher/ctl/slurm_output.h"
#include "launcher/ctl/slurm_records.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

constexpr size_t kMaxSlurmConf = size_t{16} << 20;

struct QuotaSyncOptions {
  bool dry_run = false;
  bool yes = false;
  bool json = false;
};

Result<std::string> sacctmgr(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"sacctmgr", "--immediate", "--noheader", "--parsable2"});
  return slurm_output(arguments);
}

// Slurm cannot read a slurm.conf that includes a file which is not there: each of its commands tries for a minute and
// fails, and so does a slurmctld that starts. So the file is made, empty, before Slurm is asked anything. A copy of
// slurm.conf that slurmctld has handed out is not changed.
Status make_missing_licence_file(bool dry_run) {
  if (slurm_conf_is_handed_out()) return {};
  const char* given = ::getenv("SLURM_CONF");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string site = default_site_config_path(false);
  const std::string conf =
      given != nullptr && given[0] == '/' ? given : site.substr(0, site.rfind('/')) + "/slurm.conf";
  const auto text = read_small_file(conf, kMaxSlurmConf);
  if (!text) return {};
  const auto included = includes_licences(*text);
  const std::string path = fmt::format("{}/{}", conf.substr(0, conf.rfind('/')), kLicenceFile);
  if (!included || !*included || ::access(path.c_str(), F_OK) == 0 || errno != ENOENT) return {};
  if (dry_run)
    return Error{Errc::kConflict,
                 fmt::format("{} includes {}, which is not there, so that no command of Slurm can read it; allowed: "
                             "dlctl quota sync without --dry-run, which makes the file, or touch {}",
                             printable(conf), printable(path), printable(path))};
  DL_TRY(write_file_atomically(path, ""));
  std::fprintf(stderr, "dlctl quota sync: made an empty %s, without which Slurm cannot read %s\n",
               printable(path).c_str(), printable(conf).c_str());
  return {};
}

Result<SlurmHas> look(std::string* slurm_conf) {
  SlurmHas has;
  DL_TRY_ASSIGN(const std::string config, slurm_output({"scontrol", "show", "config"}));
  read_config(config, &has, slurm_conf);
  DL_TRY_ASSIGN(const std::string licences, slurm_output({"scontrol", "--oneliner", "show", "licenses"}));
  read_licences(licences, &has);
  if (has.accounting) {
    DL_TRY_ASSIGN(const std::string rows, sacctmgr({"show", "associations", "cluster=" + has.cluster,
                                                    "format=account,user,fairshare,grptres,qos"}));
    read_associations(rows, &has);
    DL_TRY_ASSIGN(const std::string names, sacctmgr({"show", "qos", "format=name"}));
    for (const std::string& name : split(names, '\n'))
      if (!name.empty()) has.qos.push_back(name);
  }
  return has;
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : printable(text);
}

void print_plan(const QuotaPlan& plan) {
  for (const std::string& warning : plan.warnings) std::printf("warning: %s\n", warning.c_str());
  if (plan.steps.empty()) {
    std::puts("Slurm has what dl.toml says of tenants: nothing to do");
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"WHAT", "NAME", "HAS", "WANTS"}};
  for (const Step& step : plan.steps)
    rows.push_back({step.what, printable(step.name), or_dash(step.has), or_dash(step.wants)});
  std::fputs(table(rows).c_str(), stdout);
}

void print_json(const QuotaPlan& plan, bool done, const std::vector<std::string>& failures = {}) {
  Json steps = Json::array();
  for (const Step& step : plan.steps)
    steps.push_back({{"what", step.what},
                     {"name", step.name},
                     {"has", step.has},
                     {"wants", step.wants},
                     {"command", step.command}});
  std::printf("%s\n", Json{{"steps", steps}, {"warnings", plan.warnings}, {"done", done}, {"failures", failures}}
                          .dump_sorted()
                          .c_str());
}

bool agreed() {
  std::printf("Do this? [y/N] ");
  std::fflush(stdout);
  char answer[16] = {};
  return std::fgets(answer, sizeof answer, stdin) != nullptr && (answer[0] == 'y' || answer[0] == 'Y');
}

Status write_licences(const QuotaPlan& plan, const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kLicenceFile);
  DL_TRY(write_file_atomically(path, plan.licence_file));
  if (auto done = slurm_output({"scontrol", "reconfigure"}); !done)
    return std::move(done).error().with_context(path + " is written, but slurmctld has not read it");
  return {};
}

// The folder of slurm.conf. An error if slurm.conf does not include the licence file.
Result<std::string> licence_folder(const std::string& slurm_conf) {
  const std::string folder = slurm_conf.substr(0, slurm_conf.rfind('/'));
  DL_TRY_ASSIGN(const std::string text, read_small_file(slurm_conf, kMaxSlurmConf));
  DL_TRY_ASSIGN(const bool included, includes_licences(text));
  if (!included)
    return Error{Errc::kConflict, fmt::format("{} does not include {}; allowed: an empty file of that name in {}, and "
                                              "then the line 'Include {}' in it",
                                              printable(slurm_conf), kLicenceFile, printable(folder), kLicenceFile)};
  return folder;
}

// A sentence for each change that failed. A failure prevents only the changes that depend on it.
using Failures = std::vector<std::string>;

// Holds waiting jobs of tenants that dl.toml does not declare any more. Called before their licences are removed, and
// once more for jobs that were submitted in between. False if a job could not be held, which would then start without
// charge.
bool hold_orphans(const SiteConfig& site, Failures* failures) {
  auto records = read_slurm_records();
  if (!records) {
    std::fprintf(
        stderr,
        "dlctl quota sync: queued jobs of tenants that dl.toml does not declare any more could not be held: %s\n",
        records.error().text.c_str());
    return true;
  }
  bool all = true;
  for (const Orphan& orphan : orphans_of(site, *records)) {
    const std::string id = std::to_string(orphan.job);
    auto held = slurm_output({"scontrol", "update", "JobId=" + id, "Priority=0", "AdminComment=" + orphan.label});
    if (!held) {
      failures->push_back("hold job " + id + ": " + held.error().text);
      all = false;
      continue;
    }
    std::fprintf(stderr, "dlctl quota sync: job %s is held: its tenant '%s' is not in dl.toml any more\n", id.c_str(),
                 printable(orphan.tenant).c_str());
  }
  return all;
}

Failures carry_out(const SiteConfig& site, const QuotaPlan& plan, const std::string& folder) {
  Failures failures;
  if (!hold_orphans(site, &failures)) {
    failures.emplace_back(
        "the licences stay as they are: without them these jobs would start, and nobody would be charged");
  } else if (!plan.licence_file.empty()) {
    if (auto written = write_licences(plan, folder); !written) failures.push_back("licences: " + written.error().text);
  }
  hold_orphans(site, &failures);
  for (const Step& step : plan.steps) {
    if (step.command.empty()) continue;
    if (auto done = sacctmgr(step.command); !done)
      failures.push_back(fmt::format("{} {}: {}", step.what, printable(step.name), done.error().text));
  }
  return failures;
}

Status sync(const QuotaSyncOptions& options) {
  DL_TRY_ASSIGN(const SiteConfig site, load_site_config(default_site_config_path(true)));
  DL_TRY(make_missing_licence_file(options.dry_run));
  std::string slurm_conf;
  DL_TRY_ASSIGN(const SlurmHas has, look(&slurm_conf));
  const QuotaPlan plan = plan_quotas(site, has);
  if (!options.json) print_plan(plan);
  const bool idle = plan.steps.empty() || options.dry_run;
  if (idle) {
    if (options.json) print_json(plan, false);
    return {};
  }
  std::string folder;
  if (!plan.licence_file.empty()) {
    DL_TRY_ASSIGN(folder, licence_folder(slurm_conf));
  }
  if (!options.yes && (options.json || ::isatty(STDIN_FILENO) == 0))
    return Error{Errc::kInvalid, "this would change Slurm; allowed: --yes to do it, --dry-run to see it"};
  if (!options.yes && !agreed()) {
    std::puts("nothing was changed");
    return {};
  }
  const Failures failures = carry_out(site, plan, folder);
  for (const std::string& failure : failures) std::fprintf(stderr, "dlctl quota sync: %s\n", failure.c_str());
  if (options.json) print_json(plan, failures.empty(), failures);
  if (!failures.empty())
    return Error{Errc::kIo, fmt::format("{} of {} changes could not be made, and the others are made; mend what the "
                                        "lines above name, then run dlctl quota sync again",
                                        failures.size(), std::max(plan.steps.size(), failures.size()))};
  if (!options.json) std::puts("done");
  return {};
}

}  // namespace

Run add_quota_sync(CommandLine* line) {
  auto options = std::make_shared<QuotaSyncOptions>();
  line->flag("--dry-run", &options->dry_run, "show what would change, and change nothing");
  line->flag("-y,--yes", &options->yes, "do not ask");
  line->flag("--json", &options->json, "for programs");
  return [options] { return sync(*options); };
}

}  // namespace dl::ctl
