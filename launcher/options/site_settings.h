// SPDX-License-Identifier: Apache-2.0
// The site's settings for a run, also if dl.toml has a fault because an administrator is editing it: see dl.toml(5),
// "A FILE WITH A FAULT". Such a fault does not fail a batch job at once.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "frameworks/catalogue.h"
#include "launcher/options/run_options.h"

namespace dl {

struct SiteSettings {
  SiteConfig site;
  Catalogue catalogue;
  std::string path;                // of dl.toml, whether it exists or not
  std::string fault;               // what is wrong with the file, so that `site` differs from it; empty: nothing
  std::vector<std::string> notes;  // one line each, for the user
};

// A job that cannot start because of the fault is requeued with this delay, and held after this many requeues (an hour
// in all). Counted by Slurm's restart count: a job that has run before has recorded settings and is not requeued for
// this.
constexpr std::chrono::minutes kMendDelay{5};
constexpr int kMostPutBack = 12;
// How long a job that may not be requeued waits for the catalogue entry of its framework to be repaired.
constexpr std::chrono::minutes kCatalogueWait{10};

// Reads dl.toml and the catalogue. If one of them has a fault, a batch job uses the first of these that is possible:
//   1. catalogue: its good entries, if the job's framework is among them; dl.toml: what record_settings() wrote
//   2. a requeue, which ends this process with the job
//   3. catalogue: waiting for the entry of the framework; dl.toml: the built-in settings
// The error is returned if none is possible, outside of batch jobs, for a dry run, and if the file is the user's own
// ($DL_CONFIG). Blocks; prints on standard error that it requeues or waits.
Result<SiteSettings> read_site_settings(const RunCommand& run);

// Writes a copy of dl.toml into the job directory, for a later start while dl.toml has a fault. Does nothing if
// `settings` has a fault. Errors of reading or writing.
Status record_settings(const SiteSettings& settings, const std::string& job_dir);

}  // namespace dl
