// SPDX-License-Identifier: Apache-2.0
// The site's settings as a run gets them, whatever an administrator is doing to dl.toml at that moment: see dl.toml(5),
// "A FILE WITH A FAULT". A fault of the site's never fails a batch job.
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
  std::string path;                // where dl.toml is, or would be
  std::string fault;               // of the file: these are other settings. Empty: they are the file's
  std::vector<std::string> notes;  // one line each, for the user
};

// For how long a job waits for the file to be mended before it is tried again, and how often it is until it is held:
// an hour in all. Slurm's count of restarts is the count; a job that has run once has its settings recorded, and so
// does not come here.
constexpr std::chrono::minutes kMendDelay{5};
constexpr int kMostPutBack = 12;
// For how long one that may not be put back waits for the entry of its framework to be mended.
constexpr std::chrono::minutes kCatalogueWait{10};

// Reads dl.toml and the catalogue. Where they have a fault, a batch job goes on without the entries that have it, if
// its framework is another; else by what record_settings() wrote; else it is put back, which ends this process with the
// job; else it waits for the entry of its framework, and gets the built-in settings in place of a dl.toml. The error is
// for who is not in a batch job, or named the file himself, and for a dry run. Blocks, and prints what it puts back.
Result<SiteSettings> read_site_settings(const RunCommand& run);

// Keeps the settings that a job runs with in its directory, for the day on which the file has a fault. Nothing happens
// if the settings are not the file's.
Status record_settings(const SiteSettings& settings, const std::string& job_dir);

}  // namespace dl
