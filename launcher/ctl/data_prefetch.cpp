// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/data_prefetch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/own_folder.h"
#include "common/base/parse.h"
#include "common/base/shell_word.h"
#include "common/base/this_process.h"
#include "common/contract/data_request.h"
#include "common/contract/env_names.h"
#include "common/process/child_process.h"
#include "common/site/site_config.h"
#include "common/site/site_data.h"
#include "launcher/ctl/slurm_output.h"
#include "launcher/record/sources_file.h"
#include "launcher/slurm_cli/job_text.h"
#include "launcher/slurm_cli/watch_script.h"

namespace dl::ctl {
namespace {

constexpr std::chrono::seconds kSbatchLimit{120};  // sbatch waits for a slurmctld that is restarting

Result<std::vector<data::Source>> sources_of(const PrefetchOptions& options, const SiteConfig& site,
                                             const std::string& config) {
  DL_TRY_ASSIGN(const data::DataFlag flag, data::parse_data(options.source));
  std::vector<data::Source> sources = {flag.source};
  if (!flag.file.empty()) {
    DL_TRY_ASSIGN(sources, data::load_source_file(flag.file));
  }
  DL_TRY(data::resolve_names(data::catalogue_folders(site.data, config), "", &sources));
  record::make_absolute(std::filesystem::current_path().string(), environment_value("HOME"), &sources);
  for (const data::Source& source : sources)
    if (source.cache != data::Cache::kNone) return sources;
  return Error{Errc::kInvalid, fmt::format("'{}' is read where it lies, so there is nothing to fetch; allowed: "
                                           "cache=node, or a remote",
                                           data::shown_place(options.source))};
}

Result<slurm_cli::JobText> show_job(const std::string& job) {
  DL_TRY_ASSIGN(const std::string shown, slurm_output({"scontrol", "show", "job", job}, kSbatchLimit));
  return slurm_cli::parse_job_text(shown, job);
}

// What the job shall wait for: the fetch, and what it waits for already.
Result<std::string> dependency_with(const slurm_cli::JobText& job, const std::string& prefetch) {
  const std::string before = slurm_cli::given(job.value("Dependency"));
  if (before.find('?') != std::string::npos)
    return Error{Errc::kConflict, fmt::format("it waits for any one of several jobs ({}), and Slurm cannot have it "
                                              "wait for another one as well; allowed: conditions with commas",
                                              printable(before, 200))};
  std::string dependency = "afterany:" + prefetch;
  if (!before.empty())
    for (const std::string& one : split(before, ',')) dependency += "," + one.substr(0, one.find('('));
  return dependency;
}

// Checks, before anything is submitted, that the job can be made to wait. Root may change any job, but what root
// fetches lies in root's own part of the cache.
Status check_waiting(const std::string& id) {
  DL_TRY_ASSIGN(const slurm_cli::JobText job, show_job(id));
  const std::string& owner = job.value("UserId");  // "ada(1000)"
  const std::string number = owner.substr(std::min(owner.rfind('('), owner.size()));
  if (number != fmt::format("({})", ::geteuid()))
    return Error{Errc::kDenied, fmt::format("job {} is of {}, who would not find the data in the cache of uid {}; "
                                            "allowed: a job of your own",
                                            printable(id, 50), printable(owner, 100), ::geteuid())};
  auto dependency = dependency_with(job, "1");
  return dependency ? Status() : Status(std::move(dependency).error().with_context("job " + printable(id, 50)));
}

// Has the job wait for the other one, besides what it waits for already. The job may have begun: then nothing is
// fetched for it, since it fetches by itself.
Status let_wait(const std::string& id, const std::string& prefetch) {
  DL_TRY_ASSIGN(const slurm_cli::JobText job, show_job(id));
  DL_TRY_ASSIGN(const std::string dependency, dependency_with(job, prefetch));
  auto done = slurm_output({"scontrol", "update", "JobId=" + id, "Dependency=" + dependency}, kSbatchLimit);
  return done ? Status() : Status(std::move(done).error());
}

// Variables by which sbatch would make the job that fetches one with learners or GPUs, as it finds them in a job's
// script: flags of ours, and defaults that the user has set for trainings.
std::vector<std::string> not_for_a_fetch() {
  std::vector<std::string> names = {"SBATCH_GRES",          "SBATCH_GPUS",      "SBATCH_GPUS_PER_NODE",
                                    "SBATCH_GPUS_PER_TASK", "SBATCH_EXCLUSIVE", "SBATCH_ARRAY_INX",
                                    "SBATCH_WAIT"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const auto begins = [&](std::string_view front) { return name.substr(0, front.size()) == front; };
    if (begins("_SLURM_SPANK_OPTION_") || begins("SLURM_SPANK_") || (begins("DL_") && name != env::kConfig))
      names.emplace_back(name);
  }
  return names;
}

Result<std::string> submit(const PrefetchOptions& options, const std::string& output, const std::string& script) {
  std::vector<std::string> command = {"sbatch",     "--parsable",   "--job-name=dl-prefetch",
                                      "--ntasks=1", "--no-requeue", "--output=" + output};
  command.insert(command.end(), options.sbatch.begin(), options.sbatch.end());
  CommandOptions how;
  how.timeout = kSbatchLimit;
  how.input = script;
  how.without = not_for_a_fetch();
  DL_TRY_ASSIGN(const CommandResult result, run_command(command, how));
  if (!result.ok()) return Error{Errc::kInvalid, printable(trim(result.err.empty() ? result.out : result.err), 500)};
  const std::string id(trim(result.out));
  return id.substr(0, id.find(';'));
}

}  // namespace

Result<std::string> data_program() {
  DL_TRY_ASSIGN(const std::string self, own_program());
  const std::string folder = self.substr(0, self.rfind('/'));
  for (const char* place : {"/../libexec/slurm-dl/dl-data", "/../data/dl-data", "/../../data/dl-data"})
    if (::access((folder + place).c_str(), X_OK) == 0) return folder + place;
  return Error{Errc::kNotFound, "dl-data was not found beside dlctl; install slurm-dl as a whole"};
}

std::string prefetch_script(const PrefetchScript& of) {
  std::string text = "#!/bin/bash\n# Fetches data before a job has its nodes: dlctl data prefetch.\n";
  const std::string fetch = shell_words({of.program, "fetch", "--sources", of.sources, "--cache", of.cache, "--dest",
                                         of.dest, "--node", "0", "--nodes", "1"});
  if (of.job.empty()) return text + fetch + " && : >" + shell_word(of.mark) + "\n";
  text += slurm_cli::look_function(of.job) + fetch + " </dev/null &\nfetch=$!\n";
  text += "while kill -0 $fetch 2>/dev/null; do\n  sleep 10\n  look\n";
  text += "  case $said in *CANCELLED*) kill $fetch ;; esac\ndone\n";
  return text + "wait $fetch && : >" + shell_word(of.mark) + "\n";
}

Status run_prefetch(const PrefetchOptions& options) {
  const std::string config = default_site_config_path(true);
  DL_TRY_ASSIGN(const SiteConfig site, load_site_config(config));
  if (site.data.shared.empty())
    return Error{Errc::kNotFound,
                 "this site has no cache that all nodes see, so nothing can be fetched before the nodes are known; "
                 "allowed: [data] shared in dl.toml"};
  auto sources = sources_of(options, site, config);
  if (!sources) return std::move(sources).error().with_context("prefetch");
  PrefetchScript script;
  DL_TRY_ASSIGN(script.program, data_program());
  const std::string own = fmt::format("{}/{}", site.data.shared, ::geteuid());
  const std::string base = record::prefetched(own, *sources);
  script.cache = site.data.shared;
  script.sources = base + ".json";
  script.dest = base + ".links";
  script.mark = base + ".done";
  script.job = options.job;
  const std::string text = prefetch_script(script);
  if (options.dry_run) {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  if (!options.job.empty()) DL_TRY(check_waiting(options.job));
  // Nobody else can put another folder in its place.
  DL_TRY(own_folder(site.data.shared, std::to_string(::geteuid())));
  DL_TRY(own_folder(own, base.substr(own.size() + 1, base.rfind('/') - own.size() - 1)));
  DL_TRY(record::write_sources(script.sources, *sources));
  auto id = submit(options, base + "-%j.out", text);
  if (!id) return std::move(id).error().with_context("sbatch");
  if (!options.job.empty()) {
    if (Status waits = let_wait(options.job, *id); !waits) {
      ignore(slurm_output({"scancel", *id}, kSbatchLimit), "the sentence below names the job");
      return Error{Errc::kConflict, fmt::format("job {} was not made to wait for job {}, which was cancelled: {}",
                                                options.job, *id, waits.error().text)};
    }
    std::printf("job %s fetches the data; job %s waits for it\n", id->c_str(), options.job.c_str());
    return {};
  }
  std::printf("Submitted batch job %s\n", id->c_str());
  std::fprintf(stderr, "dlctl data: a job that needs the data waits for it with sbatch --dependency=afterany:%s\n",
               id->c_str());
  return {};
}

void add_prefetch_options(CommandLine* line, PrefetchOptions* options) {
  line->argument("SRC", &options->source, "as --dl-data takes it").required();
  line->option("--job", &options->job, "a job that waits: it begins after the data is there").form("JOB");
  line->option("--sbatch", &options->sbatch, "an option of sbatch for the job that fetches").form("OPTION");
  line->flag("--dry-run", &options->dry_run, "print the batch script, and submit nothing");
}

}  // namespace dl::ctl
