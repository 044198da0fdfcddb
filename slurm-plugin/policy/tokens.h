// SPDX-License-Identifier: Apache-2.0
// Tokens: licences of Slurm's by which slurmctld itself counts what a tenant holds. A job that is charged as its
// tenant's own holds own tokens, one for each GPU; a borrowed job holds borrow tokens, if its tenant's borrowing is
// limited. slurmctld starts no job without its licences: so no race, crash or restart of ours can break a cap.
//
//     dl_TENANT          of the quota for any type
//     dl_TENANT/TYPE     of the quota for one type
//     dl_TENANT/borrow   of the borrowing limit
//     dl_/GROUP          of the quota for any type that a group of tenants owns
//     dl_/GROUP/TYPE     of its quota for one type
//
// No plain name has a '/', so a name can be read back; types "any" and "borrow" do not exist (site_tenants.h).
// Pure; safe to call from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

// Licences whose names begin so are ours: no user may ask for them.
constexpr std::string_view kTokenPrefix = "dl_";

// The names of tokens. tenant: a tenant's name, or "/GROUP".
std::string own_token(const std::string& tenant);
std::string own_token(const std::string& tenant, const std::string& type);
std::string borrow_token(const std::string& tenant);

// NAME[:COUNT] of a list of licences.
struct Licence {
  std::string name;
  int count = 1;
  bool operator==(const Licence& other) const { return name == other.name && count == other.count; }
};
// A list as slurmctld holds it ("a:2,b"); also with '=' before counts and with ';' between. Fields without a name or
// with a count that is not from 1 to 1000000000 are left out.
std::vector<Licence> parse_licences(std::string_view text);
std::string format_licences(const std::vector<Licence>& licences);

struct Token {
  std::string tenant;  // empty: of a group
  std::string group;
  std::string type;  // empty: any type, or borrowed
  bool borrow = false;
};
// Nothing if the licence is not one of ours.
std::optional<Token> parse_token(std::string_view licence);

// True if a list of licences that a user gave names one of ours anywhere, however it is written.
bool names_token(std::string_view licences);
// The list without ours.
std::string without_tokens(std::string_view licences);
// The user's own licences, and ours behind them.
std::string with_tokens(std::string_view users, std::string_view ours);

// How many of each token there have to be: what `Licenses=` of slurm.conf says. By tenant and group, sorted by name;
// none with a count of 0.
std::vector<Licence> token_totals(const ClusterState& state);

// The own tokens that no job holds.
struct TokensLeft {
  explicit TokensLeft(const ClusterState& state);  // begins with all of them

  std::vector<GpuCounts> tenants;
  std::vector<GpuCounts> groups;
};

// The tokens for a job of so many GPUs. Charged as own it takes tokens of its type first, then those for any type; then
// in the same way those of its tenant's groups, from the inside out. `left`, if given: the free own tokens, from which
// these are subtracted. Nothing if there are too few in `left`, or without it in the whole quota. With kAnyType only
// tokens for any type are taken. A borrowed job takes own tokens for its `own_part`, and borrow tokens for the rest;
// none for the rest if its tenant's borrowing has no limit.
std::optional<std::vector<Licence>> tokens_for(const ClusterState& state, int tenant, int type, int gpus, Charge charge,
                                               TokensLeft* left = nullptr, int own_part = 0);

// The own_part of a borrowed job of so many GPUs, if no decision has set it: the GPUs that exceed the borrowing limit,
// since they have to be within the quota. 0 for a job of tier borrow.
int least_own_part(const ClusterState& state, int tenant, Tier tier, int gpus);

}  // namespace dl::policy
