// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/text.h"
#include "slurm-plugin/policy/free_gpus.h"

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

struct UnchargedSum {
  int running = 0;
  int gpus = 0;
  int waiting = 0;
};
std::map<std::string, UnchargedSum> by_tenant(const std::vector<observe::Uncharged>& uncharged) {
  std::map<std::string, UnchargedSum> sums;
  for (const observe::Uncharged& job : uncharged) {
    UnchargedSum& sum = sums[job.label.tenant];
    sum.gpus += job.gpus;
    ++(job.gpus > 0 ? sum.running : sum.waiting);
  }
  return sums;
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
  if (jobs.size() > kMost)
    text += fmt::format("and {} more\n", count_text(static_cast<int64_t>(jobs.size() - kMost), "job"));
  return text;
}

std::string unused_text(const policy::ClusterState& state, const policy::Job& job) {
  return fmt::format("job {} has not used {} of its {} for {}{}", job.id, job.idle_gpus, count_text(job.gpus(), "GPU"),
                     age_text((state.now_s - job.idle_since_s) * 1000),
                     job.idle && job.charge == policy::Charge::kBorrowed ? ": they count as lent" : "");
}

std::string uncharged_text(const std::vector<observe::Uncharged>& uncharged) {
  std::string text;
  for (const auto& [tenant, sum] : by_tenant(uncharged))
    text += fmt::format(
        "{}: not in dl.toml any more; {} of {} {} charged to nobody, {} wait{} "
        "and {} held by dlpolicyd until it is declared again\n",
        printable(tenant), count_text(sum.gpus, "GPU"), count_text(sum.running, "running job"),
        sum.gpus == 1 ? "is" : "are", count_text(sum.waiting, "job"), sum.waiting == 1 ? "s" : "",
        sum.waiting == 1 ? "is" : "are");
  return text;
}

std::string groups_text(const policy::ClusterState& state) {
  std::string text;
  for (const policy::GroupRow& row : policy::group_rows(state))
    if (row.quota > 0)
      text += fmt::format("group {}{}: {} of its own, {} in use by its tenants\n", printable(row.group),
                          row.parent.empty() ? "" : fmt::format(" in {}", printable(row.parent)),
                          count_text(row.quota, "GPU"), row.used);
  return text;
}

std::string free_text(const policy::ClusterState& state) {
  std::string text;
  for (const policy::FreeOfType& of : policy::free_by_type(state)) {
    text += fmt::format("{}: {} free", printable(state.types[of.type]), of.gpus);
    if (of.gpus > 0)
      text += fmt::format(" on {} node{}, at most {} together, {:.0f} % fragmentation", of.nodes,
                          of.nodes == 1 ? "" : "s", of.most, 100 * of.fragmentation());
    if (of.kept > 0) text += fmt::format("; {} kept (spares, drained, down)", of.kept);
    text += "\n";
  }
  return text;
}

std::string quota_json(const std::vector<QuotaRow>& rows, const policy::ClusterState& state,
                       const std::vector<observe::Uncharged>& uncharged) {
  auto list = Json::array();
  for (const QuotaRow& row : rows) {
    Json item = {
        {"tenant", row.tenant},     {"quota", row.quota}, {"own", row.own},         {"lent", row.lent},
        {"borrowed", row.borrowed}, {"unused", row.idle}, {"pending", row.pending}, {"jobs_pending", row.jobs_pending}};
    item["fair_share"] = std::isinf(row.fair) ? Json() : Json(row.fair);
    list.push_back(std::move(item));
  }
  auto free = Json::array();
  for (const policy::FreeOfType& of : policy::free_by_type(state)) {
    auto sizes = Json::object();
    for (const auto& [size, share] : of.by_size) sizes[std::to_string(size)] = share;
    free.push_back({{"type", state.types[of.type]},
                    {"gpus", of.gpus},
                    {"nodes", of.nodes},
                    {"most_on_node", of.most},
                    {"kept", of.kept},
                    {"fragmentation", of.fragmentation()},
                    {"fragmentation_by_learner_gpus", std::move(sizes)}});
  }
  auto gone = Json::array();
  for (const auto& [tenant, sum] : by_tenant(uncharged))
    gone.push_back({{"tenant", tenant}, {"gpus", sum.gpus}, {"jobs", sum.running}, {"jobs_pending", sum.waiting}});
  auto groups = Json::array();
  for (const policy::GroupRow& row : policy::group_rows(state))
    groups.push_back({{"group", row.group}, {"parent", row.parent}, {"quota", row.quota}, {"used", row.used}});
  const Json all = {{"tenants", std::move(list)},
                    {"groups", std::move(groups)},
                    {"free", std::move(free)},
                    {"uncharged", std::move(gone)}};
  return all.dump_sorted(2) + "\n";
}

}  // namespace dl::ctl
