// SPDX-License-Identifier: Apache-2.0
// Tenants and quotas as dl.toml declares them: see dl.toml(5), [quota] and [tenants.NAME]. Plain data. What the policy
// makes of it is in slurm-plugin/policy/site_state.h.
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
// What GPUs without a type in gres.conf are called where a type is needed.
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
  SiteGpus quota;                   // its own at any time
  std::optional<SiteGpus> lend;     // most of the quota that others may hold while it is idle; absent: all of it
  std::optional<int> borrow_limit;  // most GPUs beyond the quota; absent: no limit
  double weight = 1;                // of its share of what is lent
  std::string group;                // tenants of one group lend to one another first; empty: none
  std::optional<int> max_job_gpus, max_user_gpus;
  std::vector<std::string> frameworks;  // allowed ones; empty: all
  std::vector<std::string> images;      // patterns of absolute paths, as fnmatch(3) reads them; empty: all
  bool image_digests = false;           // an image must be given with its digest
  bool network_job = false;             // network = "job": jobs reach their own nodes and [network] allow alone
  std::vector<std::string> users;       // who may use it, names or numbers; empty: whom Slurm lets use the account
  std::optional<Tier> default_tier;     // absent: [defaults] tier
};

// [tenant_groups.NAME]: what a department owns besides its tenants, and in which other one it lies.
struct SiteGroup {
  std::string name;
  SiteGpus quota;
  std::string parent;  // empty: none
};

// [quota]
struct SiteQuota {
  std::chrono::seconds min_run{600};            // a borrowing job is not taken from before it has run for so long
  std::chrono::seconds grace{120};              // to save and yield, before Slurm's own requeue
  std::chrono::seconds half_life{7 * 86400};    // of past use in the fair share
  std::chrono::seconds patience{3600};          // a job that waits longer gets free GPUs kept for it; 0: never
  std::chrono::seconds most_unsaved{4 * 3600};  // work since its last checkpoint counts up to this for a victim...
  std::chrono::seconds most_restart{600};       // ...and what a restart takes, by its own word, up to this
  bool balance = false;                         // borrowers make place for a tenant that has less of what is lent
  bool require_pausable = false;                // borrowing needs --dl-checkpoint
  std::vector<std::string> operators;          // users besides root and SlurmUser who may change jobs; names or numbers
  std::vector<std::string> cpu_partitions;     // without GPUs: an exclusive job there holds none
  std::map<std::string, double> type_weights;  // of a GPU-second in the fair share; 1 if not named
};

// Where `account` is among the tenants, upper and lower case being the same; -1 if nowhere.
int find_tenant(const std::vector<SiteTenant>& tenants, std::string_view account);

// A name of a type that cannot be one, since it has a meaning of its own in quotas and tokens.
bool is_reserved_type(std::string_view type);

}  // namespace dl
