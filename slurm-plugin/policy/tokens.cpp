// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/tokens.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>

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

std::string joined(std::string_view a, std::string_view b) {
  std::string text(a);
  if (!a.empty() && !b.empty()) text += ',';
  return text.append(b);
}

}  // namespace

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
  const size_t slash = licence.find('/');
  Token token;
  token.tenant = licence.substr(0, slash);
  if (!is_plain_name(token.tenant)) return std::nullopt;
  if (slash == std::string_view::npos) return token;
  const std::string_view rest = licence.substr(slash + 1);
  if (rest == kBorrow) {
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
  for (const Tenant& tenant : state.tenants) {
    add(own_token(tenant.name), tenant.quota.any);
    for (int type = 0; type < state.type_count(); ++type)
      add(own_token(tenant.name, state.types[type]), tenant.quota.of(type));
    if (tenant.borrow_limit != kNoLimit) add(borrow_token(tenant.name), tenant.borrow_limit);
  }
  std::sort(totals.begin(), totals.end(), [](const Licence& a, const Licence& b) { return a.name < b.name; });
  return totals;
}

std::optional<std::vector<Licence>> tokens_for(const ClusterState& state, int tenant, int type, int gpus, Charge charge,
                                               const GpuCounts* left, int own_part) {
  const Tenant& owner = state.tenants[tenant];
  std::vector<Licence> held;
  const int own = charge == Charge::kOwn ? gpus : std::min(own_part, gpus);
  const GpuCounts& free = left == nullptr ? owner.quota : *left;
  const int typed = type == kAnyType ? 0 : std::min(own, std::max(0, free.of(type)));
  if (own > typed && own - typed > free.any) return std::nullopt;
  if (typed > 0) held.push_back({own_token(owner.name, state.types[type]), typed});
  if (own > typed) held.push_back({own_token(owner.name), own - typed});
  if (gpus == own || owner.borrow_limit == kNoLimit) return held;
  if (gpus - own > owner.borrow_limit) return std::nullopt;
  held.push_back({borrow_token(owner.name), gpus - own});
  return held;
}

int least_own_part(const ClusterState& state, int tenant, Tier tier, int gpus) {
  const int limit = state.tenants[tenant].borrow_limit;
  return tier == Tier::kBorrow || limit == kNoLimit ? 0 : std::max(0, gpus - limit);
}

}  // namespace dl::policy
