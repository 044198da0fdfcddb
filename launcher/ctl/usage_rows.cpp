// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/usage_rows.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/text.h"
#include "launcher/ctl/wait_texts.h"
#include "slurm-plugin/policy/job_label.h"

namespace dl::ctl {
namespace {

constexpr double kHour = 3600;

int64_t seconds_within(int64_t from_s, int64_t to_s, const Period& period) {
  return std::max<int64_t>(0, std::min(to_s, period.to_s) - std::max(from_s, period.from_s));
}

void add(const GpuHours& more, GpuHours* sum) {
  sum->own += more.own;
  sum->borrowed += more.borrowed;
  sum->uncharged += more.uncharged;
  sum->jobs += more.jobs;
}

// False: this line is none of a job.
bool add_job(const std::string& line, const Period& period, const LabelsById& running, Usage* usage) {
  const std::vector<std::string> cells = split(line, kUsageCell);
  if (cells.size() < 7) return false;
  const auto start = parse_int(cells[2], 0, INT64_MAX);
  if (!start) return cells[2] == "Unknown" || cells[2] == "None";  // it has not started
  // A job that runs has no end yet, and slurmdbd does not know its label.
  const bool runs = cells[4] == "RUNNING" || cells[4] == "SUSPENDED";
  const auto end = parse_int(cells[3], 0, INT64_MAX);
  const int64_t to_s = end ? *end : runs ? period.to_s : *start;
  const int64_t gpus = std::max<int64_t>(0, parse_amounts(cells[5]).gpus);
  const int64_t seconds = seconds_within(*start, to_s, period);
  if (gpus == 0 || seconds == 0) return true;
  const auto its_label = runs && cells.size() > 7 ? running.find(cells[7]) : running.end();
  const auto label = policy::parse_label(its_label == running.end() ? cells[6] : its_label->second);
  const double hours = static_cast<double>(seconds) / kHour;
  GpuHours its;
  its.jobs = 1;
  if (!label) {
    its.uncharged = hours * static_cast<double>(gpus);
  } else {
    const bool borrowed = label->charge == policy::Charge::kBorrowed;
    const int64_t own = borrowed ? std::clamp<int64_t>(label->own_part, 0, gpus) : gpus;
    its.own = hours * static_cast<double>(own);
    its.borrowed = hours * static_cast<double>(gpus - own);
  }
  TenantHours& tenant = usage->tenants[label ? label->tenant : cells[0]];
  add(its, &tenant.all);
  add(its, &tenant.users[cells[1]]);
  return true;
}

std::string hours_text(double hours) {
  return fmt::format("{:.1f}", hours);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

Json hours_json(const GpuHours& hours, bool knows_jobs) {
  Json json = {{"jobs", hours.jobs}, {"own", hours.own}, {"borrowed", hours.borrowed}, {"uncharged", hours.uncharged}};
  if (!knows_jobs) json["jobs"] = json["uncharged"] = Json(nullptr);
  return json;
}

}  // namespace

LabelsById labels_of_squeue(const std::string& text) {
  LabelsById labels;
  for (const std::string& line : split(text, '\n')) {
    if (line.size() <= kSqueueIdWidth) continue;
    const std::string id(trim(line.substr(0, kSqueueIdWidth)));
    if (!id.empty()) labels[id] = trim(line.substr(kSqueueIdWidth));
  }
  return labels;
}

Usage usage_of_accounts(const std::string& text, const Period& period, const LabelsById& running) {
  Usage usage;
  usage.source = "Slurm's accounting";
  for (const std::string& line : split(text, '\n'))
    if (!line.empty() && !add_job(line, period, running, &usage)) ++usage.skipped;
  return usage;
}

Usage usage_of_history(const std::vector<observe::TenantSpan>& spans, const Period& period) {
  Usage usage;
  usage.source = "the history of dlpolicyd, which knows no users";
  usage.knows_jobs = false;
  for (const observe::TenantSpan& span : spans) {
    const double hours = static_cast<double>(seconds_within(span.time_s, span.time_s + span.span_s, period)) / kHour;
    if (hours <= 0) continue;
    GpuHours& all = usage.tenants[span.tenant].all;
    all.own += span.own * hours;
    all.borrowed += span.borrowed * hours;
  }
  add_lent(spans, period, &usage);
  return usage;
}

void add_lent(const std::vector<observe::TenantSpan>& spans, const Period& period, Usage* usage) {
  for (const observe::TenantSpan& span : spans) {
    const double hours = static_cast<double>(seconds_within(span.time_s, span.time_s + span.span_s, period)) / kHour;
    if (hours <= 0) continue;
    std::optional<double>& lent = usage->tenants[span.tenant].lent;
    lent = lent.value_or(0) + span.lent * hours;
  }
}

bool keep_tenant(const std::string& tenant, Usage* usage) {
  if (tenant.empty()) return true;
  auto& all = usage->tenants;
  for (auto it = all.begin(); it != all.end();)
    it = ::strcasecmp(it->first.c_str(), tenant.c_str()) == 0 ? std::next(it) : all.erase(it);
  return !all.empty();
}

std::string usage_text(const Usage& usage) {
  std::vector<std::vector<std::string>> rows{{"TENANT", "USER", "JOBS", "OWN", "LENT", "BORROWED", "UNCHARGED"}};
  const auto row = [&](const std::string& tenant, const std::string& user, const GpuHours& hours,
                       const std::string& lent) {
    rows.push_back({tenant, user, usage.knows_jobs ? std::to_string(hours.jobs) : "-", hours_text(hours.own), lent,
                    hours_text(hours.borrowed), usage.knows_jobs ? hours_text(hours.uncharged) : "-"});
  };
  for (const auto& [name, tenant] : usage.tenants) {
    const std::string shown = name.empty() ? "(none)" : printable(name, 40);
    row(shown, "", tenant.all, tenant.lent ? hours_text(*tenant.lent) : "-");
    for (const auto& [user, hours] : tenant.users) row(shown, printable(user, 40), hours, "");
  }
  return table(rows) + "\nGPU-hours, from " + usage.source + "\n";
}

std::string usage_csv(const Usage& usage) {
  std::string text = "tenant,user,jobs,own,lent,borrowed,uncharged,source\n";
  const auto row = [&](const std::string& tenant, const std::string& user, const GpuHours& hours,
                       const std::string& lent) {
    text += fmt::format("{},{},{},{:.4f},{},{:.4f},{},{}\n", csv_cell(tenant), csv_cell(user),
                        usage.knows_jobs ? std::to_string(hours.jobs) : "", hours.own, lent, hours.borrowed,
                        usage.knows_jobs ? fmt::format("{:.4f}", hours.uncharged) : "", csv_cell(usage.source));
  };
  for (const auto& [name, tenant] : usage.tenants) {
    row(name, "", tenant.all, tenant.lent ? fmt::format("{:.4f}", *tenant.lent) : "");
    for (const auto& [user, hours] : tenant.users) row(name, user, hours, "");
  }
  return text;
}

std::string usage_json(const Usage& usage, const Period& period) {
  Json json = {{"source", usage.source}, {"from_s", period.from_s}, {"to_s", period.to_s}, {"skipped", usage.skipped}};
  json["tenants"] = Json::array();
  for (const auto& [name, tenant] : usage.tenants) {
    Json object = hours_json(tenant.all, usage.knows_jobs);
    object["tenant"] = name;
    object["lent"] = tenant.lent ? Json(*tenant.lent) : Json(nullptr);
    object["users"] = Json::array();
    for (const auto& [user, hours] : tenant.users) {
      Json its = hours_json(hours, usage.knows_jobs);
      its["user"] = user;
      object["users"].push_back(std::move(its));
    }
    json["tenants"].push_back(std::move(object));
  }
  return json.dump(2) + "\n";
}

}  // namespace dl::ctl
