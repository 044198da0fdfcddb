// SPDX-License-Identifier: Apache-2.0
// The cache of dl.toml and the catalogue in job_submit_dl.so. The files are read again when one of them changes; all
// threads of slurmctld share the result. After a faulty edit the last good content stays in force.
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
  std::set<uint32_t> operators;             // uids of [quota] operators
  std::vector<std::set<uint32_t>> tenants;  // uids of each tenant's users; empty: all users

  // `tenant` is an index into config.tenants. root is always allowed.
  bool allows(size_t tenant, uint32_t uid) const {
    return uid == 0 || config.tenants[tenant].users.empty() || tenants[tenant].count(uid) > 0;
  }
};
using SitePtr = std::shared_ptr<const Site>;

class SiteCache {
 public:
  enum class Level { kInfo, kError };
  using Log = std::function<void(Level, const std::string&)>;

  // `path` is that of dl.toml. `log` is called with one line when the files were read again or turned out to be broken,
  // by the thread that noticed this.
  SiteCache(std::string path, Log log) : path_(std::move(path)), log_(std::move(log)) {}

  // The newest good configuration. The files are looked at once per second at most; while one thread looks, the others
  // use the present configuration. The result is an error only if no good configuration was ever read: a slurmctld that
  // starts with a faulty file refuses jobs with --dl-* flags, which is safer than running them in the wrong tier, and
  // accepts all others. Safe to call from any thread.
  Result<SitePtr> get(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

  // True if no good configuration was ever read and the faulty one may declare tenants: then nobody knows whom to
  // charge for GPU jobs.
  bool may_have_tenants();
  // True if no good configuration was ever read and the faulty one may declare a tenant with network = "job": then all
  // jobs are refused, since a job of such a tenant must not start unsealed.
  bool may_require_network();

 private:
  void look(std::chrono::steady_clock::time_point now);
  void read();
  std::string marks(const std::vector<std::string>& folders) const;

  const std::string path_;
  const Log log_;

  std::mutex refresh_mutex_;          // held by the thread that looks at the files; guards the next three
  std::string mark_;                  // of the files when they were last read, good or bad; empty: never read
  std::vector<std::string> folders_;  // folders of the catalogue, as last read
  std::string last_error_;

  std::mutex mutex_;  // held for a few instructions; guards the members below
  bool looked_ = false;
  bool tenants_unread_ = false;
  bool network_unread_ = false;
  std::chrono::steady_clock::time_point looked_at_{};
  SitePtr current_;
  Error error_{Errc::kNotFound, "dl.toml was not read yet", 0};
};

}  // namespace dl
