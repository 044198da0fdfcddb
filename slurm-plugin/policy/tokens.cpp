// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/tokens.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <utility>

#include "common/base/parse.h"
#include "common/site/site_tenants.h"

namespace dl::policy {
namespace {

constexpr std::string_view kBorrow = "borrow";
constexpr int64_t kMaxCount = 1'000'000'000;

// What may stand between two licences, in any version: `a,b`, `a;b`, `a|b`, `a&b`, and blanks.
bool separates(char c) {
  return c == ',' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')' || static_cast<unsigned char>(c) <= ' ';
}

bool starts_as_token(std::string_view text) {
  return text.size() >= kTokenPrefix.size() &&
         ::strncasecmp(text.data(), kTokenPrefix.data(), kTokenPrefix.size()) == 0;
}

std::string group_owner(const Group& group) {
  return "/" + group.name;
}

std::string joined(std::string_view a, std::string_view b) {
  std::string text(a);
  if (!a.empty() && !b.empty()) text += ',';
  return text.append(b);
}

}  // namespace

TokensLeft::TokensLeft(const ClusterState& state) {
  for (const Tenant& tenant : state.tenants) tenants.push_back(tenant.quota);
  for (const Group& group : state.groups) groups.push_back(group.quota);
}

std::string own_token(const std::string& tenant) {
  return std::string(kTokenPrefix) + tenant;
}

std::string own_token(const std::string& tenant, const std::string& type) {
  return fmt::format("{}{}/{}", kTokenPrefix, tenant, type);
}

std::string borrow_token(const std::string& tenant) {
  return own_token(tenant, std::string(kBorrow));
}

std::vector<Licence> parse_licences(std::string_view text) {
  std::vector<Licence> found;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && !separates(text[end])) ++end;
    const std::string_view field = text.substr(at, end - at);
    at = end + 1;
    const size_t colon = field.find_first_of(":=*");
    const std::string_view name = field.substr(0, colon);
    int64_t count = 1;
    if (colon != std::string_view::npos) {
      const auto number = parse_int(field.substr(colon + 1), 1, kMaxCount);
      if (!number) continue;
      count = *number;
    }
    if (!name.empty()) found.push_back({std::string(name), static_cast<int>(count)});
  }
  return found;
}

std::string format_licences(const std::vector<Licence>& licences) {
  std::string text;
  for (const Licence& licence : licences)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", licence.name, licence.count);
  return text;
}

std::optional<Token> parse_token(std::string_view licence) {
  if (licence.substr(0, kTokenPrefix.size()) != kTokenPrefix) return std::nullopt;
  licence.remove_prefix(kTokenPrefix.size());
  size_t slash = licence.find('/');
  const bool slash_first = slash == 0;
  Token token;
  if (slash == 0) {
    licence.remove_prefix(1);
    slash = licence.find('/');
    token.group = licence.substr(0, slash);
  } else {
    token.tenant = licence.substr(0, slash);
  }
  if (!is_plain_name(slash_first ? token.group : token.tenant)) return std::nullopt;
  if (slash == std::string_view::npos) return token;
  const std::string_view rest = licence.substr(slash + 1);
  if (rest == kBorrow && !slash_first) {
    token.borrow = true;
    return token;
  }
  if (!is_plain_name(rest) || is_reserved_type(rest)) return std::nullopt;
  token.type = rest;
  return token;
}

bool names_token(std::string_view licences) {
  for (size_t i = 0; i < licences.size(); ++i)
    if ((i == 0 || separates(licences[i - 1])) && starts_as_token(licences.substr(i))) return true;
  return false;
}

std::string without_tokens(std::string_view licences) {
  std::string kept;
  for (const std::string& field : split(licences, ','))
    if (!field.empty() && !starts_as_token(trim(field))) kept = joined(kept, field);
  return kept;
}

std::string with_tokens(std::string_view users, std::string_view ours) {
  return joined(users, ours);
}

std::vector<Licence> token_totals(const ClusterState& state) {
  std::vector<Licence> totals;
  const auto add = [&](std::string name, int count) {
    if (count > 0) totals.push_back({std::move(name), count});
  };
  const auto add_quota = [&](const std::string& owner, const GpuCounts& quota) {
    add(own_token(owner), quota.any);
    for (int type = 0; type < state.type_count(); ++type) add(own_token(owner, state.types[type]), quota.of(type));
  };
  for (const Group& group : state.groups) add_quota(group_owner(group), group.quota);
  for (const Tenant& tenant : state.tenants) {
    add_quota(tenant.name, tenant.quota);
    if (tenant.borrow_limit != kNoLimit) add(borrow_token(tenant.name), tenant.borrow_limit);
  }
  std::sort(totals.begin(), totals.end(), [](const Licence& a, const Licence& b) { return a.name < b.name; });
  return totals;
}

std::optional<std::vector<Licence>> tokens_for(const ClusterState& state, int tenant, int type, int gpus, Charge charge,
                                               TokensLeft* left, int own_part) {
  const Tenant& owner = state.tenants[tenant];
  const int own = charge == Charge::kOwn ? gpus : std::min(own_part, gpus);
  std::vector<Licence> held;
  std::vector<std::pair<int*, int>> taken;  // out of `left`
  int rest = own;
  const auto take = [&](const std::string& name, int free, int* count) {
    const int taking = std::min(rest, std::max(0, free));
    if (taking == 0) return;
    held.push_back({name, taking});
    if (count != nullptr) taken.emplace_back(count, taking);
    rest -= taking;
  };
  const auto take_of = [&](const std::string& name, const GpuCounts& free, GpuCounts* counts) {
    const bool named = counts != nullptr && type >= 0 && type < static_cast<int>(counts->by_type.size());
    if (type != kAnyType)
      take(own_token(name, state.types[type]), free.of(type), named ? &counts->by_type[type] : nullptr);
    take(own_token(name), free.any, counts != nullptr ? &counts->any : nullptr);
  };
  if (own > 0) {
    GpuCounts* counts = left != nullptr ? &left->tenants[tenant] : nullptr;
    take_of(owner.name, counts != nullptr ? *counts : owner.quota, counts);
  }
  for (int group = owner.group; rest > 0 && state.quota_of(group) != nullptr; group = state.parent_of(group)) {
    GpuCounts* counts = left != nullptr ? &left->groups[group] : nullptr;
    take_of(group_owner(state.groups[group]), counts != nullptr ? *counts : state.groups[group].quota, counts);
  }
  if (rest > 0) return std::nullopt;
  const int borrowed = owner.borrow_limit == kNoLimit ? 0 : gpus - own;
  if (borrowed > owner.borrow_limit && borrowed > 0) return std::nullopt;
  for (const auto& [count, taking] : taken) *count -= taking;
  if (borrowed > 0) held.push_back({borrow_token(owner.name), borrowed});
  return held;
}

int least_own_part(const ClusterState& state, int tenant, Tier tier, int gpus) {
  const int limit = state.tenants[tenant].borrow_limit;
  return tier == Tier::kBorrow || limit == kNoLimit ? 0 : std::max(0, gpus - limit);
}

}  // namespace dl::policy
