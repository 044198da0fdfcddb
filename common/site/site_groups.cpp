// SPDX-License-Identifier: Apache-2.0
// The [tenant_groups.NAME] tables of dl.toml.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/site/site_tenants_toml.h"
#include "common/site/site_values.h"

namespace dl {
namespace {

Result<SiteGroup> read_group(const toml::table& table, const std::string& file, const std::string& where,
                             const SiteConfig& config) {
  SiteGroup group;
  for (auto&& [key, node] : table) {
    Status set;
    if (key.str() == "quota") {
      set = set_gpus(node, config, &group.quota);
    } else if (key.str() == "parent") {
      set = set_name(node, "group", &group.parent);
    } else {
      set = Error{Errc::kInvalid, "unknown key; allowed: quota, parent"};
    }
    if (!set) return place(node, file, fmt::format("{}.{}", where, key.str()), std::move(set).error());
  }
  return group;
}

const SiteGroup* find(const SiteConfig& config, const std::string& name) {
  for (const SiteGroup& group : config.groups)
    if (group.name == name) return &group;
  return nullptr;
}

// If the quota of a group names types, all quotas below it must name them, too: otherwise it would be unknown which
// GPUs are beyond those quotas.
Status check_below(const std::string& what, const SiteGpus& quota, const std::string& above, const SiteConfig& config) {
  size_t steps = 0;
  for (const SiteGroup* group = find(config, above); group != nullptr; group = find(config, group->parent)) {
    if (++steps > config.groups.size())
      return Error{Errc::kInvalid, what + " lies in group '" + group->name +
                                       "', whose parents lead back to a group below them; allowed: parents that lead "
                                       "to a group without a parent"};
    if (quota.any > 0 && !group->quota.by_type.empty())
      return Error{
          Errc::kInvalid,
          fmt::format("{} owns {} GPUs of any type, but tenant_groups.{} owns some of type '{}'; allowed below "
                      "that: quotas by type, as quota = {{ {} = {} }}",
                      what, quota.any, group->name, group->quota.by_type.begin()->first,
                      group->quota.by_type.begin()->first, quota.any)};
  }
  return {};
}

// Quotas are added up in many places.
Status check_sum(const SiteConfig& config) {
  int64_t all = 0;
  const auto add = [&](const SiteGpus& quota) {
    all += quota.any;
    for (const auto& [type, gpus] : quota.by_type) all += gpus;
  };
  for (const SiteGroup& group : config.groups) add(group.quota);
  for (const SiteTenant& tenant : config.tenants) add(tenant.quota);
  if (all <= kMaxQuotasGpus) return {};
  return Error{Errc::kInvalid, fmt::format("all quotas of [tenants] and [tenant_groups] are {} GPUs together; allowed: "
                                           "up to {}",
                                           all, kMaxQuotasGpus)};
}

}  // namespace

Status read_site_groups(const toml::node& node, const std::string& file, SiteConfig* config) {
  return each_table(node, file, "tenant_groups", kMaxTenants, "group", "a group",
                    [&](const std::string& name, const toml::table& table) -> Status {
                      DL_TRY_ASSIGN(SiteGroup group, read_group(table, file, "tenant_groups." + name, *config));
                      group.name = name;
                      config->groups.push_back(std::move(group));
                      return {};
                    });
}

Status check_site_groups(const std::string& file, const SiteConfig& config) {
  const auto in_file = [&](Status found) -> Status {
    if (found) return {};
    return std::move(found).error().with_context(file);
  };
  for (const SiteGroup& group : config.groups) {
    if (!group.parent.empty() && find(config, group.parent) == nullptr)
      return in_file(
          Error{Errc::kInvalid,
                fmt::format("tenant_groups.{}.parent: group '{}' is not declared; allowed: a group with a table "
                            "[tenant_groups.NAME] of its own",
                            group.name, printable(group.parent))});
    DL_TRY(in_file(check_below("tenant_groups." + group.name, group.quota, group.parent, config)));
  }
  DL_TRY(in_file(check_sum(config)));
  for (const SiteTenant& tenant : config.tenants)
    DL_TRY(in_file(check_below("tenants." + tenant.name, tenant.quota, tenant.group, config)));
  return {};
}

}  // namespace dl
