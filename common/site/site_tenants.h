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
// The name of the type of GPUs that have no type in gres.conf, for where one is needed.
constexpr std::string_view kPlainGpuType = "gpu";

// Numbers of GPUs: of named types, and of any type on top of those.
struct SiteGpus {
  int any = 0;
  std::map<std::string, int> by_type;

  int of(const std::string& type) const;  // of that type alone; 0 if it is not named
  int total() const;
};

// [tenants.NAME]
struct SiteTenant {
  std::string name;                 // of the Slurm account; Slurm does not tell upper from lower case
  SiteGpus quota;                   // GPUs that are its own at any time
  std::optional<SiteGpus> lend;     // most of the quota that others may hold while it is idle; absent: all of it
  std::optional<int> borrow_limit;  // most GPUs beyond the quota; absent: no limit
  double weight = 1;                // of its share of the GPUs that are lent
  std::string group;                // tenants of one group lend to one another first; empty: none
  std::optional<int> max_job_gpus, max_user_gpus;
  std::vector<std::string> frameworks;  // allowed ones; empty: all
  std::vector<std::string> images;      // patterns of absolute paths, as fnmatch(3) reads them; empty: all
  bool image_digests = false;           // an image must be given with its digest
  bool network_job =
      false;  // network = "job": its jobs connect only to their own nodes, Slurm's controllers and [network] allow
  std::vector<std::string> users;    // who may use it, names or numbers; empty: whom Slurm lets use the account
  std::optional<Tier> default_tier;  // absent: [defaults] tier
};

// [tenant_groups.NAME]: a group of tenants, such as a department: the GPUs that it owns on top of its tenants' quotas,
// and the group that it is part of.
struct SiteGroup {
  std::string name;
  SiteGpus quota;
  std::string parent;  // empty: none
};

// [quota]
struct SiteQuota {
  std::chrono::seconds min_run{600};            // for so long a borrowing job runs before GPUs may be taken from it
  std::chrono::seconds grace{120};              // for a victim to save and yield; after it, Slurm requeues the job
  std::chrono::seconds half_life{7 * 86400};    // of past use in the fair share
  std::chrono::seconds patience{3600};          // a job that waits longer gets free GPUs kept for it; 0: never
  std::chrono::seconds most_unsaved{4 * 3600};  // of work that a victim would lose, at most so much counts...
  std::chrono::seconds most_restart{600};       // ...and of the restart time that it states, at most so much
  bool balance = false;           // those who borrow much give GPUs back to tenants that borrow less for their weight
  bool require_pausable = false;  // borrowing needs --dl-checkpoint
  std::vector<std::string> operators;          // users besides root and SlurmUser who may change jobs; names or numbers
  std::vector<std::string> cpu_partitions;     // partitions without GPUs: an exclusive job there holds none
  std::map<std::string, double> type_weights;  // of a GPU-second in the fair share; 1 if not named
};

// The index of the tenant with this account, whatever the case of its letters; -1 if there is none.
int find_tenant(const std::vector<SiteTenant>& tenants, std::string_view account);

// Whether this cannot be the name of a GPU type, since it has another meaning in quotas and tokens.
bool is_reserved_type(std::string_view type);

}  // namespace dl
