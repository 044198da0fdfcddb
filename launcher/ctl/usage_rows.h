// SPDX-License-Identifier: Apache-2.0
// GPU-hours of tenants and users in a period, for `dlctl usage`: from what sacct prints, and from the history that
// dlpolicyd keeps. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/ctl/history_plot.h"
#include "slurm-plugin/observe/history.h"

namespace dl::ctl {

// In GPU-hours. own, borrowed: as the jobs were charged last; uncharged: of jobs that slurm-dl does not charge.
struct GpuHours {
  double own = 0, borrowed = 0, uncharged = 0;
  int jobs = 0;  // a job that was requeued counts once for each of its starts
};

struct TenantHours {
  GpuHours all;
  std::optional<double> lent;             // GPU-hours of its quota that others had; none: not known
  std::map<std::string, GpuHours> users;  // by name; empty: not known
};

struct Usage {
  std::string source;  // for people
  std::map<std::string, TenantHours> tenants;
  bool knows_jobs = true;  // false: of the history, which knows neither jobs, users nor what was not charged
  int skipped = 0;         // lines that could not be read
};

constexpr char kUsageCell = '\x1f';  // between the cells of a line; a '|' may stand in a comment
// For sacct's --format, in the order in which usage_of_accounts() reads them.
constexpr const char* kUsageFields = "Account,User,Start,End,State,AllocTRES,AdminComment,JobIDRaw";

// Slurm sends the labels of jobs (policy/job_label.h) to slurmdbd when they end, so those of jobs that run come from
// slurmctld. By the ids that sacct calls JobIDRaw.
using LabelsById = std::map<std::string, std::string>;
// For squeue's --Format; a label has at most about 500 bytes, and what somebody has written behind it may be cut.
constexpr const char* kSqueueLabels = "jobid:24,admin_comment:1000";
constexpr size_t kSqueueIdWidth = 24;
// What squeue prints so, without a heading. Lines that are none are passed over.
LabelsById labels_of_squeue(const std::string& text);

// text: of sacct, with times in seconds since 1970. Tenants are those of the jobs' labels (policy/job_label.h), else
// their accounts. Times outside of the period do not count. running: the labels of jobs that run.
Usage usage_of_accounts(const std::string& text, const Period& period, const LabelsById& running = {});
// Without users, which the history does not have.
Usage usage_of_history(const std::vector<observe::TenantSpan>& spans, const Period& period);
// Adds what tenants have lent, which only the history knows.
void add_lent(const std::vector<observe::TenantSpan>& spans, const Period& period, Usage* usage);
// Only this tenant, whatever the case of its name; empty: all. False: there is none.
bool keep_tenant(const std::string& tenant, Usage* usage);

std::string usage_text(const Usage& usage);
std::string usage_csv(const Usage& usage);
std::string usage_json(const Usage& usage, const Period& period);

}  // namespace dl::ctl
