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
constexpr int64_t kMaxQuotasGpus = 1'000'000'000;  // of all tenants and groups together
constexpr size_t kMaxTenants = 1000;
// The type name used for GPUs that have no type in gres.conf.
constexpr std::string_view kPlainGpuType = "gpu";

// Numbers of GPUs: some of named types, plus `any` GPUs of whatever type.
struct SiteGpus {
  int any = 0;
  std::map<std::string, int> by_type;

  int of(const std::string& type) const;  // the number for this type alone; 0 if the type is not named
  int total() const;
};

// [tenants.NAME]
struct SiteTenant {
  std::string name;                 // the Slurm account; its case does not matter
  SiteGpus quota;                   // GPUs guaranteed to it at any time
  std::optional<SiteGpus> lend;     // the most idle GPUs of the quota that others may hold; absent: all
  std::optional<int> borrow_limit;  // the most GPUs that it may hold beyond the quota; absent: no limit
  double weight = 1;                // its weight when idle GPUs are lent to several tenants
  std::string group;                // tenants of one group lend to one another first; empty: none
  std::optional<int> max_job_gpus, max_user_gpus;
  std::vector<std::string> frameworks;  // frameworks that are allowed; empty: all
  std::vector<std::string> images;  // images that are allowed, as patterns of absolute paths for fnmatch(3); empty: all
  bool image_digests = false;       // images must be given with their digest
  bool network_job =
      false;  // network = "job": its jobs connect only to their own nodes, Slurm's controllers and [network] allow
  std::vector<std::string> users;    // its users, names or uids; empty: all whom Slurm allows
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
  std::chrono::seconds min_run{600};          // a borrowing job runs at least this long before it may become a victim
  std::chrono::seconds grace{120};            // time for a victim to save and yield; then Slurm requeues it
  std::chrono::seconds half_life{7 * 86400};  // half-life of past use in the fair share
  std::chrono::seconds patience{3600};        // free GPUs are kept for a job that has waited longer than this; 0: never
  std::chrono::seconds most_unsaved{4 * 3600};  // the most unsaved work of a victim that counts as its cost,
  std::chrono::seconds most_restart{600};       // and the most of the restart time that it declares
  bool balance = false;                // tenants that borrow much give way to those that borrow less for their weight
  bool require_pausable = false;       // only jobs with --dl-checkpoint may borrow
  std::vector<std::string> operators;  // users besides root and SlurmUser who may change jobs; names or uids
  std::vector<std::string> cpu_partitions;     // partitions without GPUs: exclusive jobs there hold no GPUs
  std::map<std::string, double> type_weights;  // weight of a GPU-second in the fair share by type; default 1
  // The most that a job with GPUs may ask for, for each of its GPUs; 0: no limit.
  int max_cpus_per_gpu = 0;
  uint64_t max_memory_per_gpu = 0;  // bytes
};

// The index of the tenant with this account, compared without regard to case; -1 if there is none.
int find_tenant(const std::vector<SiteTenant>& tenants, std::string_view account);

// True if `type` cannot be the name of a GPU type, since it has another meaning in quotas and licence names.
bool is_reserved_type(std::string_view type);

}  // namespace dl
