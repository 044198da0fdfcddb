// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

using policy::QuotaRow;

std::string bar(const QuotaRow& row, int scale, int width) {
  const auto length = [&](int gpus) { return static_cast<size_t>((gpus * width + scale - 1) / scale); };
  const size_t quota = length(row.quota);
  std::string text(length(row.own), '#');
  text.append(length(row.lent), '+');
  text.resize(quota, '.');
  return "[" + text + "]" + std::string(length(row.borrowed), '>');
}

}  // namespace

std::string quota_text(const std::vector<QuotaRow>& rows, bool bars, int width) {
  std::vector<std::vector<std::string>> cells = {
      {"TENANT", "QUOTA", "OWN", "LENT", "BORROWED", "UNUSED", "PENDING", "FAIR SHARE"}};
  if (bars) cells.front().emplace_back("");
  int scale = 1;
  for (const QuotaRow& row : rows) scale = std::max({scale, row.quota, row.own + row.borrowed});
  for (const QuotaRow& row : rows) {
    cells.push_back({row.tenant, std::to_string(row.quota), std::to_string(row.own), std::to_string(row.lent),
                     std::to_string(row.borrowed), std::to_string(row.idle),
                     row.jobs_pending == 0 ? "0" : fmt::format("{} in {}", row.pending, row.jobs_pending),
                     std::isinf(row.fair) ? "last" : fmt::format("{:.2f}", row.fair)});
    if (bars) cells.back().push_back(bar(row, scale, width));
  }
  return table(cells);
}

std::string unused_text(const policy::ClusterState& state) {
  constexpr size_t kMost = 10;
  std::vector<const policy::Job*> jobs;
  for (const policy::Job& job : state.jobs)
    if (job.running && job.idle_gpus > 0) jobs.push_back(&job);
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const policy::Job* a, const policy::Job* b) { return a->idle_since_s < b->idle_since_s; });
  std::string text;
  for (size_t i = 0; i < jobs.size() && i < kMost; ++i)
    text += fmt::format("{}: {}\n", state.tenants[jobs[i]->tenant].name, unused_text(state, *jobs[i]));
  if (jobs.size() > kMost) text += fmt::format("and {} jobs more\n", jobs.size() - kMost);
  return text;
}

std::string unused_text(const policy::ClusterState& state, const policy::Job& job) {
  return fmt::format("job {} has not used {} of its {} GPUs for {}{}", job.id, job.idle_gpus, job.gpus(),
                     age_text((state.now_s - job.idle_since_s) * 1000),
                     job.idle && job.charge == policy::Charge::kBorrowed ? ": they count as lent" : "");
}

std::string quota_json(const std::vector<QuotaRow>& rows) {
  auto list = nlohmann::json::array();
  for (const QuotaRow& row : rows) {
    nlohmann::json item = {
        {"tenant", row.tenant},     {"quota", row.quota}, {"own", row.own},         {"lent", row.lent},
        {"borrowed", row.borrowed}, {"unused", row.idle}, {"pending", row.pending}, {"jobs_pending", row.jobs_pending}};
    item["fair_share"] = std::isinf(row.fair) ? nlohmann::json() : nlohmann::json(row.fair);
    list.push_back(std::move(item));
  }
  return list.dump(2) + "\n";
}

}  // namespace dl::ctl
