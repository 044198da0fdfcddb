// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/modify_guard.h"

#include <fmt/core.h>

#include "common/base/parse.h"

namespace dl {
namespace {

// True if two comma-separated lists have a name in common.
bool overlap(const std::string& a, const std::string& b) {
  for (const std::string& x : split(a, ','))
    for (const std::string& y : split(b, ','))
      if (!x.empty() && x == y) return true;
  return false;
}

Status check_tiers(const SiteConfig& site, const std::string& qos, const std::string& partition) {
  struct Row {
    const char* tier;
    const char* what;
    const std::string& wanted;
    const std::string& target;
  };
  const Row rows[] = {{"guaranteed", "QOS", qos, site.guaranteed.qos},
                      {"guaranteed", "partition", partition, site.guaranteed.partition},
                      {"borrow", "QOS", qos, site.borrow.qos},
                      {"borrow", "partition", partition, site.borrow.partition}};
  for (const Row& row : rows)
    if (overlap(row.wanted, row.target))
      return Error{Errc::kDenied,
                   fmt::format("{} '{}' is the {} tier's: a job's tier is set at its submission; allowed: a new "
                               "submission with --dl-tier={}",
                               row.what, printable(row.wanted), row.tier, row.tier),
                   0};
  return {};
}

Status check_charge(const SiteConfig& site, const Change& change) {
  struct Row {
    bool changed;
    const char* what;
  };
  const Row rows[] = {{change.licences, "licences"},
                      {change.account, "account"},
                      {change.admin_comment, "admin comment"},
                      {change.nodes, "number of nodes"},
                      {change.tasks, "number of tasks"},
                      {change.gpus, "GPUs"},
                      {change.exclusive, "use of whole nodes"},
                      {site.quota.max_cpus_per_gpu > 0 && change.cpus, "number of CPUs"},
                      {site.quota.max_memory_per_gpu > 0 && change.memory, "memory"},
                      {site.tiers_locked && !change.qos.empty(), "QOS"},
                      {site.tiers_locked && !change.partition.empty(), "partition"}};
  for (const Row& row : rows)
    if (row.changed)
      return Error{Errc::kDenied,
                   fmt::format("a job's {} cannot be changed here, since its tenant is charged for what was "
                               "submitted; allowed: a new submission",
                               row.what),
                   0};
  return {};
}

}  // namespace

Status check_change(const SiteConfig& site, const Change& change) {
  if (site.tiers_locked) DL_TRY(check_tiers(site, change.qos, change.partition));
  return site.tenants.empty() ? Status() : check_charge(site, change);
}

std::optional<int64_t> least_begin(const SiteConfig& site, const Change& change, int64_t now_s) {
  if (site.tenants.empty() || !change.begin_s || *change.begin_s >= now_s + kLeastAheadS) return std::nullopt;
  return now_s + kLeastAheadS;
}

}  // namespace dl
