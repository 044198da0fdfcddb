// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/ctl/text.h"
#include "slurm-plugin/policy/fair_share.h"

namespace dl::ctl {
namespace {

std::string bar(const QuotaRow& row, int scale, int width) {
  const auto length = [&](int gpus) { return static_cast<size_t>((gpus * width + scale - 1) / scale); };
  const size_t quota = length(row.quota);
  std::string text(length(row.own), '#');
  text.append(length(row.lent), '+');
  text.resize(quota, '.');
  return "[" + text + "]" + std::string(length(row.borrowed), '>');
}

}  // namespace

std::vector<QuotaRow> quota_rows(const policy::ClusterState& state) {
  const policy::Ledger ledger(state);
  std::vector<QuotaRow> rows;
  int idle_all = 0;
  int borrowed_all = 0;
  for (size_t i = 0; i < state.tenants.size(); ++i) {
    const int tenant = static_cast<int>(i);
    QuotaRow row;
    row.tenant = state.tenants[i].name;
    row.quota = state.tenants[i].quota.total();
    row.own = ledger.own(tenant);
    row.borrowed = ledger.borrowed(tenant);
    row.fair = policy::fair_key(state, ledger, tenant);
    for (const policy::Job& job : state.jobs) {
      if (job.running || job.tenant != tenant) continue;
      ++row.jobs_pending;
      row.pending += job.min_learners * job.gpus_per_learner;
    }
    idle_all += ledger.idle_quota(tenant);
    borrowed_all += row.borrowed;
    rows.push_back(row);
  }
  // Shared out so that the rounding errors do not add up.
  const int lent_all = std::min(idle_all, borrowed_all);
  int64_t idle_before = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int idle = ledger.idle_quota(static_cast<int>(i));
    if (idle_all > 0)
      rows[i].lent = static_cast<int>((idle_before + idle) * lent_all / idle_all - idle_before * lent_all / idle_all);
    idle_before += idle;
  }
  return rows;
}

std::string quota_text(const std::vector<QuotaRow>& rows, bool bars, int width) {
  std::vector<std::vector<std::string>> cells = {
      {"TENANT", "QUOTA", "OWN", "LENT", "BORROWED", "PENDING", "FAIR SHARE"}};
  if (bars) cells.front().emplace_back("");
  int scale = 1;
  for (const QuotaRow& row : rows) scale = std::max({scale, row.quota, row.own + row.borrowed});
  for (const QuotaRow& row : rows) {
    cells.push_back({row.tenant, std::to_string(row.quota), std::to_string(row.own), std::to_string(row.lent),
                     std::to_string(row.borrowed),
                     row.jobs_pending == 0 ? "0" : fmt::format("{} in {}", row.pending, row.jobs_pending),
                     std::isinf(row.fair) ? "last" : fmt::format("{:.2f}", row.fair)});
    if (bars) cells.back().push_back(bar(row, scale, width));
  }
  return table(cells);
}

std::string quota_json(const std::vector<QuotaRow>& rows) {
  auto list = nlohmann::json::array();
  for (const QuotaRow& row : rows) {
    nlohmann::json item = {{"tenant", row.tenant},
                           {"quota", row.quota},
                           {"own", row.own},
                           {"lent", row.lent},
                           {"borrowed", row.borrowed},
                           {"pending", row.pending},
                           {"jobs_pending", row.jobs_pending}};
    item["fair_share"] = std::isinf(row.fair) ? nlohmann::json() : nlohmann::json(row.fair);
    list.push_back(std::move(item));
  }
  return list.dump(2) + "\n";
}

}  // namespace dl::ctl
