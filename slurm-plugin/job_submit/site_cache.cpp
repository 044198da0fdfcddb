// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/site_cache.h"

#include <dirent.h>
#include <fmt/core.h>
#include <pwd.h>

#include <algorithm>
#include <array>

#include "common/base/parse.h"
#include "common/site/site_tenants_toml.h"
#include "slurm-plugin/job_submit/file_mark.h"
#include "slurm-plugin/policy/site_state.h"

namespace dl {
namespace {

constexpr std::chrono::seconds kSiteLookInterval{1};
constexpr size_t kMaxCatalogueFiles = 1000;

std::string folder_mark(const std::string& folder) {
  DIR* handle = ::opendir(folder.c_str());
  if (handle == nullptr) return folder + " -\n";
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(handle)) {  // NOLINT(concurrency-mt-unsafe): one stream, one thread
    const std::string name = entry->d_name;
    if (name.size() > 5 && name.compare(name.size() - 5, 5, ".toml") == 0) names.push_back(name);
    if (names.size() > kMaxCatalogueFiles) break;
  }
  ::closedir(handle);
  std::sort(names.begin(), names.end());
  std::string mark = folder + "\n";
  for (const std::string& name : names) mark += file_mark(fmt::format("{}/{}", folder, name));
  return mark;
}

// The uids of users by name. They are looked up once, when the file is read, because a directory service may answer
// slowly. A name that is not known is logged and left out.
std::set<uint32_t> user_numbers(const std::vector<std::string>& names, const SiteCache::Log& log) {
  std::set<uint32_t> numbers;
  for (const std::string& name : names) {
    if (const auto number = parse_int(name, 0, UINT32_MAX - 1)) {
      numbers.insert(static_cast<uint32_t>(*number));
      continue;
    }
    std::array<char, 16384> buffer{};
    struct passwd entry {};
    struct passwd* found = nullptr;
    ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found != nullptr)
      numbers.insert(found->pw_uid);
    else
      log(SiteCache::Level::kError, fmt::format("dl: user '{}' in dl.toml is not known here and has no right", name));
  }
  return numbers;
}

}  // namespace

bool SiteCache::may_have_tenants() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return current_ == nullptr && tenants_unread_;
}

bool SiteCache::may_require_network() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return current_ == nullptr && network_unread_;
}

Result<SitePtr> SiteCache::get(std::chrono::steady_clock::time_point now) {
  bool first = false;
  bool due = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    first = !looked_;
    due = first || now - looked_at_ >= kSiteLookInterval;
  }
  if (due) {
    // The very first callers wait until one of them has read the files; later callers use the present configuration
    // meanwhile.
    std::unique_lock<std::mutex> looking(refresh_mutex_, std::defer_lock);
    if (first)
      looking.lock();
    else if (!looking.try_lock())
      due = false;
    if (due) look(now);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (current_) return current_;
  return error_;
}

// The caller holds refresh_mutex_.
void SiteCache::look(std::chrono::steady_clock::time_point now) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (looked_ && now - looked_at_ < kSiteLookInterval) return;  // another thread has just looked
    looked_at_ = now;
  }
  // looked_ becomes true only after the first reading, so that all callers wait for it.
  if (mark_.empty() || mark_ != marks(folders_)) read();
  const std::lock_guard<std::mutex> lock(mutex_);
  looked_ = true;
}

// The caller holds refresh_mutex_. The mark of a file is taken before the file is read, so that a change in between is
// noticed at the next look.
void SiteCache::read() {
  const bool first = mark_.empty();
  auto site = std::make_shared<Site>();
  Status outcome;
  mark_ = file_mark(path_);
  if (auto config = load_site_config(path_)) {
    site->config = std::move(*config);
    folders_ = site->config.catalogue;
  } else {
    outcome = std::move(config).error();
  }
  for (const std::string& folder : folders_) mark_ += folder_mark(folder);
  if (outcome) {
    if (auto catalogue = Catalogue::load(folders_))
      site->catalogue = std::move(*catalogue);
    else
      outcome = std::move(catalogue).error();
  }
  if (outcome) {
    site->state = policy::state_of(site->config);
    site->operators = user_numbers(site->config.quota.operators, log_);
    for (const SiteTenant& tenant : site->config.tenants) site->tenants.push_back(user_numbers(tenant.users, log_));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      current_ = std::move(site);
    }
    last_error_.clear();
    log_(Level::kInfo, fmt::format("dl: {} {}", first ? "read" : "read again:", path_));
    return;
  }
  const std::string text = outcome.error().text;
  bool keeps = false;
  const bool tenants = !site->config.tenants.empty() || may_name_tenants(path_);
  const bool network = dl::may_require_network(path_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tenants_unread_ = tenants;
    network_unread_ = network;
    error_ = std::move(outcome).error();
    keeps = current_ != nullptr;
  }
  if (text != last_error_)
    log_(Level::kError, fmt::format("dl: {}; {}", text,
                                    keeps ? "the former configuration stays in force"
                                          : fmt::format("{} are refused until this is mended",
                                                        network   ? "all jobs"
                                                        : tenants ? "jobs with --dl-* flags or GPUs"
                                                                  : "jobs with --dl-* flags")));
  last_error_ = text;
}

std::string SiteCache::marks(const std::vector<std::string>& folders) const {
  std::string mark = file_mark(path_);
  for (const std::string& folder : folders) mark += folder_mark(folder);
  return mark;
}

}  // namespace dl
