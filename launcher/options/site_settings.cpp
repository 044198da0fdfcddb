// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/site_settings.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "common/base/atomic_file.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "common/contract/path_pattern.h"
#include "launcher/options/put_back.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_dir.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl {
namespace {

constexpr size_t kMaxRecord = 1 << 20;  // dl.toml, too, is read up to this size only

// The settings made of load_site_config()'s result and the catalogue that it names.
Result<SiteSettings> with_catalogue(Result<SiteConfig> site, const std::string& path) {
  if (!site) return std::move(site).error();
  SiteSettings settings;
  DL_TRY_ASSIGN(settings.catalogue, Catalogue::load(site->catalogue));
  settings.site = *std::move(site);
  settings.path = path;
  return settings;
}

std::string framework_of(const RunCommand& run, const SiteConfig& site) {
  const std::string given = run.request.framework.value_or(environment_value(env::kFramework));
  const auto ref = parse_framework_ref(given);
  return given.empty() || !ref ? site.framework : ref->name;
}

// Settings with those entries of the catalogue that have no fault. None if the job's framework is not among them.
std::optional<SiteSettings> with_sound_entries(const SiteConfig& site, const std::string& path, const RunCommand& run) {
  SiteSettings settings;
  std::vector<std::string> faults;
  settings.catalogue = Catalogue::load_sound(site.catalogue, &faults);
  if (settings.catalogue.find(framework_of(run, site)) == nullptr) return std::nullopt;
  settings.site = site;
  settings.path = path;
  if (!faults.empty()) settings.fault = faults.front();
  for (const std::string& fault : faults)
    settings.notes.push_back(fault + "; the job goes on without that entry of the catalogue");
  return settings;
}

// Waits for the site's file to be mended, for a job that may not be requeued and whose framework's entry has a fault.
std::optional<SiteSettings> wait_for_entry(const std::string& path, const RunCommand& run, const std::string& fault) {
  constexpr std::chrono::seconds kEach{5};
  std::fprintf(stderr, "dlrun: %s; the job waits up to %d minutes for the file to be mended\n", fault.c_str(),
               static_cast<int>(kCatalogueWait.count()));
  for (auto waited = std::chrono::seconds(0); waited < kCatalogueWait; waited += kEach) {
    std::this_thread::sleep_for(kEach);
    const auto site = load_site_config(path);
    if (!site) continue;
    if (auto settings = with_sound_entries(*site, path, run)) return settings;
  }
  return std::nullopt;
}

// Whether the configuration is the user's own file: DL_CONFIG is set, and the user owns that file. DL_CONFIG also names
// the site's file if plugstack.conf does (spank_dl.so sets it). For root no file counts as its own.
bool is_own_file(const std::string& path) {
  struct stat info {};
  return std::getenv(env::kConfig) != nullptr && ::geteuid() != 0 && ::stat(path.c_str(), &info) == 0 &&
         info.st_uid == ::geteuid();
}

// Empty if the pattern contains a name that this job does not have.
std::string folder_of(const std::string& pattern, const std::string& base, const std::string& id) {
  PathNames names = names_in_environment([](const char* name) { return environment_value(name); });
  name_job(id, &names);
  return record::expand_job_dir(pattern, base, names);
}

// Where this job's directory may be, in order of certainty. The configured path is unknown, since its file has the
// fault.
std::vector<std::string> possible_folders(const RunCommand& run, const std::string& id,
                                          const std::optional<slurm_cli::JobInfo>& job) {
  std::vector<std::string> folders;
  const std::string base = job && !job->work_dir.empty() ? job->work_dir : environment_value("SLURM_SUBMIT_DIR");
  if (run.job_dir) folders.push_back(folder_of(*run.job_dir, base, id));
  const auto comment = job ? record::parse_comment(job->comment) : std::nullopt;
  if (comment && !comment->dir.empty()) folders.push_back(comment->dir);
  folders.push_back(folder_of(SiteConfig().job_dir, base, id));
  return folders;
}

// Settings that an earlier start recorded in the job directory. The text is parsed under the original file's name,
// because relative paths and the site's own catalogue depend on it.
std::optional<SiteSettings> recorded(const std::vector<std::string>& folders, const std::string& path,
                                     const RunCommand& run) {
  for (const std::string& folder : folders) {
    const auto text = read_small_file(record::JobDir(folder).site(), kMaxRecord);
    if (!text) continue;
    const auto site = parse_site_config(*text, path);
    if (!site) continue;
    if (auto settings = with_sound_entries(*site, path, run)) return settings;
  }
  return std::nullopt;
}

// How the job goes back into the queue.
PutBack put_back_for(const std::string& fault, const slurm_cli::JobInfo& job) {
  PutBack how;
  how.hold = job.restarts >= kMostPutBack;
  how.delay = kMendDelay;
  how.reason =
      how.hold
          ? fmt::format("{}; the job has been put back {} times and is held now: mend the file, then dlctl resume {}",
                        fault, job.restarts, job.job_id)
          : fmt::format("{}; the job waits until the file is mended, and is tried again in {} minutes", fault,
                        kMendDelay.count());
  return how;
}

}  // namespace

Result<SiteSettings> read_site_settings(const RunCommand& run) {
  const std::string path = default_site_config_path(true);
  const auto site = load_site_config(path);
  auto settings = with_catalogue(site, path);
  if (settings || run.dry_run) return settings;
  const std::string fault = settings.error().text, id = environment_value("SLURM_JOB_ID");
  if (id.empty() || is_own_file(path)) return settings;
  std::optional<slurm_cli::JobInfo> job;
  if (auto shown = slurm_cli::show_job(id)) job = *std::move(shown);
  if (job && !job->batch) return settings;
  if (site) {
    if (auto sound = with_sound_entries(*site, path, run)) return *std::move(sound);
  } else if (auto former = recorded(possible_folders(run, job ? job->job_id : id, job), path, run)) {
    former->fault = fault;
    former->notes.push_back(fmt::format("{}; the job goes on with the settings that it ran with before", fault));
    return *std::move(former);
  }
  std::string why = "Slurm does not answer, so that the job cannot be put back into the queue";
  if (job && !job->requeue) why = "the job may not be put back into the queue (--no-requeue)";
  if (job && job->requeue) {
    const Status done = put_back(*job, put_back_for(fault, *job));
    if (done) return settings;
    why = "the job could not be put back into the queue: " + done.error().text;
  }
  if (site) {
    if (auto mended = wait_for_entry(path, run, fmt::format("{}; {}", fault, why))) return *std::move(mended);
    return settings;
  }
  const auto defaults = parse_site_config("", path);
  auto built_in = defaults ? with_sound_entries(*defaults, path, run) : std::nullopt;
  if (!built_in) return settings;
  built_in->fault = fault;
  built_in->notes.push_back(fmt::format("{}; {}, and goes on with the built-in settings", fault, why));
  return *std::move(built_in);
}

Status record_settings(const SiteSettings& settings, const std::string& job_dir) {
  if (!settings.fault.empty()) return {};
  std::string text;  // the defaults, if there is no file
  if (auto read = read_small_file(settings.path, kMaxRecord))
    text = *std::move(read);
  else if (read.error().code != Errc::kNotFound)
    return std::move(read).error();
  if (!parse_site_config(text, settings.path)) return {};  // the file was damaged a moment ago
  const std::string place = record::JobDir(job_dir).site();
  if (auto there = read_small_file(place, kMaxRecord); there && *there == text) return {};
  DL_TRY(make_directories(job_dir));
  return write_file_atomically(place, text);
}

}  // namespace dl
