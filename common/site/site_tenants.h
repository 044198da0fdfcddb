// SPDX-License-Identifier: Apache-2.0
// Tenants and quotas as dl.toml declares them: see dl.toml(5), [quota] and [tenants.NAME]. Plain data.
// slurm-plugin/policy/site_state.h turns it into what the policy works with.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/request_values.h"

namespace dl {

constexpr int kMaxQuotaGpus = 1'000'000;
constexpr size_t kMaxTenants = 1000;
// The type name used for GPUs that have no type in gres.conf.
constexpr std::string_view kPlainGpuType = "gpu";

// Numbers of GPUs: for named types, plus `any` of whatever type.
struct SiteGpus {
  int any = 0;
  std::map<std::string, int> by_type;

  int of(const std::string& type) const;  // of that type alone; 0 if it is not named
  int total() const;
};

// [tenants.NAME]
struct SiteTenant {
  std::string name;                 // the Slurm account; its case does not matter
  SiteGpus quota;                   // GPUs guaranteed to it at any time
  std::optional<SiteGpus> lend;     // most GPUs of the idle quota that others may hold; absent: all
  std::optional<int> borrow_limit;  // most GPUs it may hold beyond the quota; absent: no limit
  double weight = 1;                // weight of its share in the GPUs that are lent
  std::string group;                // tenants of one group lend to one another first; empty: none
  std::optional<int> max_job_gpus, max_user_gpus;
  std::vector<std::string> frameworks;  // allowed ones; empty: all
  std::vector<std::string> images;      // patterns of absolute paths, as fnmatch(3) reads them; empty: all
  bool image_digests = false;           // images must be named with their digest
  bool network_job =
      false;  // network = "job": its jobs connect only to their own nodes, Slurm's controllers and [network] allow
  std::vector<std::string> users;    // its users, names or uids; empty: all users whom Slurm allows
  std::optional<Tier> default_tier;  // absent: [defaults] tier
};

// [tenant_groups.NAME]: a group of tenants, such as a department. It may own GPUs on top of its tenants' quotas, and be
// part of another group.
struct SiteGroup {
  std::string name;
  SiteGpus quota;
  std::string parent;  // empty: none
};

// [quota]
struct SiteQuota {
  std::chrono::seconds min_run{600};            // a borrowing job runs at least this long before it may be a victim
  std::chrono::seconds grace{120};              // time for a victim to save and yield; then Slurm requeues it
  std::chrono::seconds half_life{7 * 86400};    // half-life of past use in the fair share
  std::chrono::seconds patience{3600};          // free GPUs are kept for a job that waits longer; 0: never
  std::chrono::seconds most_unsaved{4 * 3600};  // most unsaved work of a victim that counts as its cost...
  std::chrono::seconds most_restart{600};       // ...and most of the restart time that it declares
  bool balance = false;                // tenants that borrow much give way to those that borrow less for their weight
  bool require_pausable = false;       // borrowing needs --dl-checkpoint
  std::vector<std::string> operators;  // users besides root and SlurmUser who may change jobs; names or uids
  std::vector<std::string> cpu_partitions;     // partitions without GPUs: exclusive jobs there hold none
  std::map<std::string, double> type_weights;  // weight of a GPU-second in the fair share by type; default 1
};

// The index of the tenant with this account, compared without regard to case; -1 if there is none.
int find_tenant(const std::vector<SiteTenant>& tenants, std::string_view account);

// True if `type` cannot name a GPU type, since it has another meaning in quotas and licence names.
bool is_reserved_type(std::string_view type);

}  // namespace dl
