// SPDX-License-Identifier: Apache-2.0
#include "common/site/site_tenants.h"

#include <fmt/core.h>
#include <strings.h>

#include <array>

#include "common/base/parse.h"
#include "common/site/site_tenants_toml.h"
#include "common/site/site_values.h"

namespace dl {
namespace {

constexpr double kMaxWeight = 1e6;
constexpr size_t kMaxList = 1000;
constexpr const char* kGpusAllowed = "a whole number of GPUs, or a table of them by type: { any = 4, a100 = 8 }";

std::string types_text(const SiteConfig& config) {
  std::string text;
  for (const auto& [type, gpus] : config.gpus_per_node_by_type) text += (text.empty() ? "" : ", ") + type;
  return text;
}

Status set_limit(const toml::node& node, int min, std::optional<int>* out) {
  int value = 0;
  DL_TRY(set_int(node, min, kMaxQuotaGpus, &value));
  *out = value;
  return {};
}

// A path that contains '..' could lead out of the folder that a pattern allows.
bool is_image_pattern(const std::string& path) {
  return is_clean_path(path) && path.front() == '/' && (path + "/").find("/../") == std::string::npos;
}

Status set_images(const toml::node& node, std::vector<std::string>* out) {
  const std::string allowed =
      fmt::format("1 to {} patterns of absolute paths without '..' in an array: [\"/images/*\"]", kMaxList);
  const auto* array = node.as_array();
  if (array == nullptr || array->empty() || array->size() > kMaxList) return bad_value(node, allowed);
  out->clear();
  for (const toml::node& element : *array) {
    const auto* path = element.as_string();
    if (path == nullptr || !is_image_pattern(path->get())) return bad_value(element, allowed);
    out->push_back(path->get());
  }
  return {};
}

Status set_network(const toml::node& node, bool* out) {
  const auto* text = node.as_string();
  if (text == nullptr || (text->get() != "job" && text->get() != "any")) return bad_value(node, "\"job\", \"any\"");
  *out = text->get() == "job";
  return {};
}

struct Key {
  std::string_view name;
  Status (*set)(const toml::node& node, const SiteConfig& config, SiteTenant* tenant);
};
using Node = toml::node;
using Site = SiteConfig;
using Tenant = SiteTenant;
constexpr std::array kKeys{
    Key{"quota", [](const Node& n, const Site& c, Tenant* t) { return set_gpus(n, c, &t->quota); }},
    Key{"lend",
        [](const Node& n, const Site& c, Tenant* t) {
          t->lend.emplace();
          return set_gpus(n, c, &*t->lend);
        }},
    Key{"borrow_limit", [](const Node& n, const Site&, Tenant* t) { return set_limit(n, 0, &t->borrow_limit); }},
    Key{"weight", [](const Node& n, const Site&, Tenant* t) { return set_number(n, 0, kMaxWeight, &t->weight); }},
    Key{"group", [](const Node& n, const Site&, Tenant* t) { return set_name(n, "group", &t->group); }},
    Key{"max_job_gpus", [](const Node& n, const Site&, Tenant* t) { return set_limit(n, 1, &t->max_job_gpus); }},
    Key{"max_user_gpus", [](const Node& n, const Site&, Tenant* t) { return set_limit(n, 1, &t->max_user_gpus); }},
    Key{"frameworks",
        [](const Node& n, const Site&, Tenant* t) { return set_names(n, "frameworks", kMaxList, &t->frameworks); }},
    Key{"images", [](const Node& n, const Site&, Tenant* t) { return set_images(n, &t->images); }},
    Key{"image_digests", [](const Node& n, const Site&, Tenant* t) { return set_bool(n, &t->image_digests); }},
    Key{"network", [](const Node& n, const Site&, Tenant* t) { return set_network(n, &t->network_job); }},
    Key{"users", [](const Node& n, const Site&, Tenant* t) { return set_names(n, "users", kMaxList, &t->users); }},
    Key{"default_tier", [](const Node& n, const Site&, Tenant* t) { return set_tier(n, &t->default_tier.emplace()); }},
};

std::string allowed_keys() {
  std::string text;
  for (const Key& key : kKeys) text += fmt::format("{}{}", text.empty() ? "" : ", ", key.name);
  return text;
}

// Checks that concern more than one key of a tenant.
Status check_tenant(const SiteTenant& tenant) {
  if (!tenant.lend) return {};
  for (const auto& [type, gpus] : tenant.lend->by_type)
    if (gpus > tenant.quota.of(type))
      return Error{Errc::kConflict,
                   fmt::format("lends {} GPUs of type '{}' of a quota of {}; allowed: at most the quota", gpus, type,
                               tenant.quota.of(type))};
  if (tenant.lend->any > tenant.quota.any)
    return Error{Errc::kConflict,
                 fmt::format("lends {} GPUs of any type of a quota of {}; allowed: at most the quota, which may be "
                             "given by type: lend = {{ a100 = 4 }}",
                             tenant.lend->any, tenant.quota.any)};
  return {};
}

Result<SiteTenant> read_tenant(const toml::table& table, const std::string& file, const std::string& where,
                               const SiteConfig& config) {
  SiteTenant tenant;
  for (auto&& [toml_key, node] : table) {
    const std::string full = fmt::format("{}.{}", where, toml_key.str());
    const Key* known = nullptr;
    for (const Key& key : kKeys)
      if (key.name == toml_key.str()) known = &key;
    if (known == nullptr)
      return place(node, file, full, Error{Errc::kInvalid, "unknown key; allowed: " + allowed_keys()});
    if (Status set = known->set(node, config, &tenant); !set) return place(node, file, full, std::move(set).error());
  }
  if (table.find("quota") == table.end())
    return place(table, file, where,
                 Error{Errc::kInvalid, fmt::format("has no quota; allowed: quota = {}", kGpusAllowed)});
  if (Status good = check_tenant(tenant); !good) return place(table, file, where, std::move(good).error());
  return tenant;
}

}  // namespace

int SiteGpus::of(const std::string& type) const {
  const auto found = by_type.find(type);
  return found == by_type.end() ? 0 : found->second;
}

int SiteGpus::total() const {
  int sum = any;
  for (const auto& [type, count] : by_type) sum += count;
  return sum;
}

int find_tenant(const std::vector<SiteTenant>& tenants, std::string_view account) {
  for (size_t i = 0; i < tenants.size(); ++i)
    if (tenants[i].name.size() == account.size() &&
        ::strncasecmp(tenants[i].name.data(), account.data(), account.size()) == 0)
      return static_cast<int>(i);
  return -1;
}

bool is_reserved_type(std::string_view type) {
  return type == "any" || type == "borrow";
}

Status check_type_name(std::string_view type, const SiteConfig& config) {
  if (!is_plain_name(type) || is_reserved_type(type))
    return Error{Errc::kInvalid, fmt::format("'{}' is not a GPU type; allowed: a name of letters, digits and . _ + -, "
                                             "other than any and borrow",
                                             printable(type))};
  if (!config.gpus_per_node_by_type.empty() && config.gpus_per_node_by_type.count(std::string(type)) == 0)
    return Error{Errc::kInvalid,
                 fmt::format("GPU type '{}' is not in [nodes.types]; allowed: {}", type, types_text(config))};
  return {};
}

Status set_gpus(const toml::node& node, const SiteConfig& config, SiteGpus* out) {
  if (node.is_integer()) {
    *out = SiteGpus{};
    return set_int(node, 0, kMaxQuotaGpus, &out->any);
  }
  const auto* table = node.as_table();
  if (table == nullptr || table->empty()) return bad_value(node, kGpusAllowed);
  SiteGpus gpus;
  for (auto&& [key, value] : *table) {
    const std::string type(key.str());
    int count = 0;
    if (type != "any") DL_TRY(check_type_name(type, config));
    if (Status set = set_int(value, 0, kMaxQuotaGpus, &count); !set)
      return std::move(set).error().with_context(printable(type));
    (type == "any" ? gpus.any : gpus.by_type[type]) = count;
  }
  *out = std::move(gpus);
  return {};
}

Status read_site_tenants(const toml::node& node, const std::string& file, SiteConfig* config) {
  return each_table(node, file, "tenants", kMaxTenants, "tenant", "an account",
                    [&](const std::string& name, const toml::table& table) -> Status {
                      const std::string where = "tenants." + name;
                      if (const int other = find_tenant(config->tenants, name); other >= 0)
                        return place(table, file, where,
                                     Error{Errc::kInvalid,
                                           fmt::format("is tenant '{}' once more, since Slurm does not tell upper from "
                                                       "lower case in accounts; allowed: one of the two",
                                                       config->tenants[static_cast<size_t>(other)].name)});
                      DL_TRY_ASSIGN(SiteTenant tenant, read_tenant(table, file, where, *config));
                      tenant.name = name;
                      config->tenants.push_back(std::move(tenant));
                      return {};
                    });
}

}  // namespace dl
