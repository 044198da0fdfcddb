// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/job_counts.h"

#include <fmt/core.h>

#include <utility>

#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/policyd/exposition.h"
#include "slurm-plugin/policyd/job_series.h"

namespace dl::policyd {

void JobCounts::compare(const observe::JobRecord& record, const Seen& now, Sums* sums) {
  const auto before = seen_.find(record.id);
  const bool known = before != seen_.end();
  const bool ended = ended_.count(record.id) != 0;  // it was put back after its end
  const bool element = record.array != 0 && record.element >= 0;
  if (!known && !ended && !element) ++sums->created;
  if (now.runs && (!known || !before->second.runs)) ++sums->started;
  if (!now.runs && (ended || (known && before->second.runs))) ++sums->put_back;
  if (now.halted && (!known || !before->second.halted)) ++sums->halted;
}

void JobCounts::update(const policy::ClusterState& state, const observe::Records& records) {
  using How = observe::EndedRecord::How;
  const auto sums_of = [&](const std::string& account) {
    return &by_tenant_[policy::tenant_index(state, account) ? account : std::string()];
  };
  for (const policy::Tenant& tenant : state.tenants) by_tenant_[tenant.name];
  std::map<int64_t, Seen> seen;
  for (const observe::JobRecord& record : records.jobs) {
    if (record.phase == observe::JobPhase::kOver) continue;
    const Seen now{record.phase != observe::JobPhase::kPending,
                   std::string_view("HALTED") == job_state_name(record, nullptr)};
    if (began_) compare(record, now, sums_of(record.account));
    seen[record.id] = now;
  }
  std::set<int64_t> ended;
  for (const observe::EndedRecord& record : records.ended) {
    ended.insert(record.id);
    if (!began_ || ended_.count(record.id) != 0) continue;
    Sums* sums = sums_of(record.account);
    const auto before = seen_.find(record.id);
    if (before == seen_.end() && !record.element) ++sums->created;  // it came and went between two rounds
    if (record.how == How::kCompleted) ++sums->succeeded;
    if (record.how == How::kCancelled) ++sums->cancelled;
    if (record.how == How::kFailed) ++sums->failed;
    if (record.how == How::kSystem) ++sums->failed_by_system;
  }
  seen_ = std::move(seen);
  ended_ = std::move(ended);
  began_ = true;
}

std::string JobCounts::text() const {
  struct CountRow {
    const char* name;
    const char* labels;
    const char* help;
    int64_t Sums::*count;
  };
  const CountRow rows[] = {
      {"trainer_trainings_create_total", "", "Jobs that were submitted.", &Sums::created},
      {"trainer_jobs_dequeued_total", "", "Starts of jobs.", &Sums::started},
      {"trainer_trainings_halt_total", "", "Jobs that were paused.", &Sums::halted},
      {"dl_requeues_total", "", "Jobs that Slurm put back into the queue after they had started.", &Sums::put_back},
      {"trainer_trainings_success_total", "", "Jobs that Slurm calls completed.", &Sums::succeeded},
      {"trainer_trainings_delete_total", "", "Jobs that were cancelled.", &Sums::cancelled},
      {"trainer_trainings_failed_total", ",type=\"client\"", "Jobs that failed; server: because of a node.",
       &Sums::failed},
      {"trainer_trainings_failed_total", ",type=\"server\"", nullptr, &Sums::failed_by_system},
  };
  std::string text;
  for (const CountRow& row : rows) {
    if (row.help != nullptr) begin_metric(&text, row.name, "counter", row.help);
    for (const auto& [tenant, sums] : by_tenant_)
      text += fmt::format("{}{{tenant={}{}}} {}\n", row.name, label_value(tenant), row.labels, sums.*row.count);
  }
  return text;
}

}  // namespace dl::policyd
