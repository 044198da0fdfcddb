// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/use.h"

#include <algorithm>
#include <cmath>

#include "common/base/atomic_file.h"
#include "common/json/json.h"
#include "slurm-plugin/policy/fair_share.h"
#include "slurm-plugin/policy/ledger.h"

namespace dl::policyd {
namespace {

constexpr size_t kMaxFile = 4 << 20;

}  // namespace

void RecentUse::update(policy::ClusterState* state) {
  const policy::Ledger ledger(*state);
  if (at_s_ == 0) {
    for (const policy::Job& job : state->jobs)
      gpu_s_[state->tenants[job.tenant].name] += policy::use_since_start(*state, job);
  }
  const int64_t elapsed = at_s_ == 0 ? 0 : std::max<int64_t>(0, state->now_s - at_s_);
  for (size_t i = 0; i < state->tenants.size(); ++i) {
    policy::Tenant& tenant = state->tenants[i];
    double& use = gpu_s_[tenant.name];
    use = policy::decayed_use(use, ledger.borrowed_weighted(static_cast<int>(i)), elapsed, state->half_life_s);
    tenant.recent_gpu_s = use;
  }
  at_s_ = state->now_s;
}

Status RecentUse::parse(const std::string& text) {
  const auto json = Json::parse(text);
  const Error bad{Errc::kInvalid, "the text is not a record of use as dlpolicyd keeps it"};
  if (!json.is_object()) return bad;
  const auto version = json.find("version");
  if (version == nullptr || !version->is_number_integer() || version->get<int64_t>() != 1) return bad;
  const auto at = json.find("at_s");
  const auto tenants = json.find("borrowed_gpu_s");
  if (at == nullptr || !at->is_number_integer() || tenants == nullptr || !tenants->is_object()) return bad;
  std::map<std::string, double> use;
  for (const auto& [name, value] : tenants->members()) {
    if (!value.is_number()) return bad;
    const double gpu_s = value.get<double>();
    if (!std::isfinite(gpu_s) || gpu_s < 0) return bad;
    use[name] = gpu_s;
  }
  gpu_s_ = std::move(use);
  at_s_ = std::max<int64_t>(0, at->get<int64_t>());
  return {};
}

std::string RecentUse::text() const {
  Json json;
  json["version"] = 1;
  json["at_s"] = at_s_;
  json["borrowed_gpu_s"] = gpu_s_;
  return json.dump_sorted() + "\n";
}

Status RecentUse::load(const std::string& path) {
  auto text = read_small_file(path, kMaxFile);
  if (!text) {
    if (text.error().code == Errc::kNotFound) return {};
    return std::move(text).error();
  }
  Status parsed = parse(*text);
  if (!parsed) return std::move(parsed).error().with_context(path);
  return {};
}

Status RecentUse::save(const std::string& path) const {
  return write_file_atomically(path, text());
}

}  // namespace dl::policyd
