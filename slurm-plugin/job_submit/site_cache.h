// SPDX-License-Identifier: Apache-2.0
// The cache of dl.toml and the catalogue in job_submit_dl.so: read again when a file changes, shared by slurmctld's
// threads. After a faulty edit the last good content stays in force.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "frameworks/catalogue.h"
#include "slurm-plugin/policy/cluster_state.h"

namespace dl {

struct Site {
  SiteConfig config;
  Catalogue catalogue;
  policy::ClusterState state;               // state_of(config)
  std::set<uint32_t> operators;             // [quota] operators, as numbers
  std::vector<std::set<uint32_t>> tenants;  // users of each tenant; empty: all

  // `tenant`: index into config.tenants. root may always.
  bool allows(size_t tenant, uint32_t uid) const {
    return uid == 0 || config.tenants[tenant].users.empty() || tenants[tenant].count(uid) > 0;
  }
};
using SitePtr = std::shared_ptr<const Site>;

class SiteCache {
 public:
  enum class Level { kInfo, kError };
  using Log = std::function<void(Level, const std::string&)>;

  // `path`: of dl.toml. `log` is called with one line when the files were read anew or turned out to be broken; by the
  // thread that noticed.
  SiteCache(std::string path, Log log) : path_(std::move(path)), log_(std::move(log)) {}

  // The newest good configuration. Looks at the files at most once per second; while one thread looks, the others use
  // the present configuration. An error only if no good one was ever read: a slurmctld that starts with a faulty file
  // then refuses jobs with --dl-* flags, which is safer than running them in the wrong tier, and accepts all others.
  // Safe to call from any thread.
  Result<SitePtr> get(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

  // True if no good configuration was ever read and the faulty one may declare tenants: GPU jobs cannot be charged
  // then.
  bool may_have_tenants();
  // True if no good configuration was ever read and the faulty one may declare a tenant with network = "job": all jobs
  // are refused then, since none of these may start unsealed.
  bool may_require_network();

 private:
  void look(std::chrono::steady_clock::time_point now);
  void read();
  std::string marks(const std::vector<std::string>& folders) const;

  const std::string path_;
  const Log log_;

  std::mutex refresh_mutex_;          // held by the thread that looks at the files; guards the next three
  std::string mark_;                  // of the files when last read, good or bad; empty: never read
  std::vector<std::string> folders_;  // of the catalogue, as last read
  std::string last_error_;

  std::mutex mutex_;  // held for a few instructions; guards what follows
  bool looked_ = false;
  bool tenants_unread_ = false;
  bool network_unread_ = false;
  std::chrono::steady_clock::time_point looked_at_{};
  SitePtr current_;
  Error error_{Errc::kNotFound, "no configuration was read yet", 0};
};

}  // namespace dl
