// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/modify_guard.h"

#include <fmt/format.h>

#include "launcher/common/parse.h"

namespace dl {
namespace {

// True if two lists with commas have a name in common.
bool overlap(const std::string& a, const std::string& b) {
  for (const std::string& x : split(a, ','))
    for (const std::string& y : split(b, ','))
      if (!x.empty() && x == y) return true;
  return false;
}

}  // namespace

Status check_change(const SiteConfig& site, const std::string& qos, const std::string& partition) {
  if (!site.tiers_locked) return {};
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

}  // namespace dl
