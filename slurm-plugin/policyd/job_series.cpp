// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/job_series.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "common/base/parse.h"
#include "common/contract/comment_word.h"
#include "common/scaling/pace_hint.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/policyd/exposition.h"
#include "slurm-plugin/policyd/memory.h"

namespace dl::policyd {
namespace {

using observe::JobPhase;
using observe::JobRecord;
using observe::SeenJob;

// launcher/record/job_state.h has the same, which this room may not include.
constexpr std::array kStates{"QUEUED",  "PENDING",   "DEPLOY", "DOWNLOADING", "PROCESSING",
                             "STORING", "COMPLETED", "FAILED", "HALTED"};
constexpr const char* kQueued = kStates[0];
constexpr const char* kPending = kStates[1];
constexpr const char* kDeploy = kStates[2];
constexpr const char* kHalted = kStates[8];
constexpr const char* kRunning = "RUNNING";
constexpr int kMostAttempts = 1'000'000'000;

// The state in a comment; nullptr if dlrun has written none. A text of the user's own may stand before it.
const char* state_in(std::string_view comment) {
  for (size_t at = comment.find("dl:"); at != std::string_view::npos; at = comment.find("dl:", at + 1)) {
    const std::string_view rest = comment.substr(at + 3);
    const std::string_view word = rest.substr(0, rest.find(' '));
    for (const char* state : kStates)
      if (word == state) return state;
  }
  return nullptr;
}

// A job of which something is told.
struct Told {
  const JobRecord* record = nullptr;
  const SeenJob* seen = nullptr;     // nullptr: not known to the policy
  const policy::Job* job = nullptr;  // nullptr: likewise, or no decision concerns it now
  std::string tenant;
  const char* state = kPending;
  PaceHint pace;  // of this start of the job

  bool runs() const { return record->phase != JobPhase::kPending; }
};

// Each job that the policy knows, and each other one that dlrun runs.
std::vector<Told> told_jobs(const observe::ClusterView& view, const observe::Records& records) {
  std::vector<Told> of_record(records.jobs.size());
  const auto note = [&](const SeenJob& seen, const policy::Job* job) {
    Told& told = of_record[seen.record];
    if (told.seen != nullptr) return;  // of the waiting elements of a job array the first one stands for all
    told.seen = &seen;
    told.job = job;
    told.tenant = seen.label.tenant;
  };
  for (size_t i = 0; i < view.jobs.size(); ++i) note(view.jobs[i], &view.state.jobs[i]);
  for (const SeenJob& seen : view.aside) note(seen, nullptr);
  for (const observe::Uncharged& job : view.uncharged) of_record[job.record].tenant = job.label.tenant;
  std::vector<Told> jobs;
  for (size_t i = 0; i < records.jobs.size(); ++i) {
    Told& told = of_record[i];
    const JobRecord& record = records.jobs[i];
    if (record.phase == JobPhase::kOver) continue;
    if (told.tenant.empty() && state_in(record.comment) == nullptr) continue;
    // Without slurmdbd the users of jobs without GPUs may call their accounts whatever they like.
    if (told.tenant.empty() && policy::tenant_index(view.state, record.account)) told.tenant = record.account;
    told.record = &record;
    told.state = job_state_name(record, told.seen);
    jobs.push_back(std::move(told));
  }
  return jobs;
}

std::string name_of(const JobRecord& record) {
  const bool element = record.array != 0 && record.element >= 0;
  return policy::job_name(element ? policy::element_id(record.array, record.element) : record.id);
}

int64_t queued_s(const Told& told, int64_t now_s) {
  return std::max<int64_t>(0, (told.runs() ? told.record->start_s : now_s) - told.record->submit_s);
}

using Value = std::optional<double>;

Value number_if(bool known, double value) {
  return known ? Value(value) : std::nullopt;
}

// What is told of each job besides its state and what it is called.
struct Row {
  const char* name;
  const char* help;
  Value (*value)(const Told& told, int64_t now_s);
};
constexpr std::array kRows{
    Row{"dl_job_learners", "Learners of a job that runs.",
        [](const Told& t, int64_t) { return number_if(t.job && t.runs(), t.job ? t.job->learners() : 0); }},
    Row{"dl_job_gpus", "GPUs that a job holds.",
        [](const Told& t, int64_t) { return number_if(t.job && t.runs(), t.job ? t.job->gpus() : 0); }},
    Row{"dl_job_borrowed_gpus", "Those of them that are beyond its tenant's quota.",
        [](const Told& t, int64_t) {
          return number_if(t.job && t.runs(), t.job ? t.job->gpus() - t.job->own_of(t.job->gpus()) : 0);
        }},
    Row{"dl_job_pending_gpus", "GPUs that a waiting job asks for, at its smallest size.",
        [](const Told& t, int64_t) {
          return number_if(t.job && !t.runs(), t.job ? double(t.job->min_learners) * t.job->gpus_per_learner : 0);
        }},
    Row{"dl_job_queue_seconds", "How long a job has waited, or had waited when it started.",
        [](const Told& t, int64_t now_s) { return Value(queued_s(t, now_s)); }},
    Row{"dl_job_run_seconds", "How long a job has run since it last started.",
        [](const Told& t, int64_t now_s) {
          return number_if(t.runs(), double(std::max<int64_t>(0, now_s - t.record->start_s)));
        }},
    Row{"dl_job_requeues", "How often Slurm has put a job back into the queue.",
        [](const Told& t, int64_t) { return Value(t.record->requeues); }},
    Row{"dl_job_attempts", "Attempts of a job so far, restarts inside of an allocation among them.",
        [](const Told& t, int64_t) {
          const auto attempts = parse_int(comment_word(t.record->comment, "attempt"), 0, kMostAttempts);
          return number_if(bool(attempts), attempts ? double(*attempts) : 0);
        }},
    Row{"dl_job_asked_to_yield", "1 if a job was asked to give GPUs back and has not done so yet.",
        [](const Told& t, int64_t) {
          return number_if(t.job && t.runs(), t.job && t.job->yields_to != policy::kNobody ? 1 : 0);
        }},
    Row{"dl_job_saved_step", "Newest train step that is known to be saved.",
        [](const Told& t, int64_t) {
          const int64_t step = saved_step(t.record->comment);
          return number_if(step >= 0, double(step));
        }},
    Row{"dl_job_unsaved_seconds", "How long ago a job that can save was seen to save, or started.",
        [](const Told& t, int64_t now_s) {
          return number_if(t.job && t.runs() && t.seen->label.pausable,
                           t.job ? double(now_s - t.job->checkpoint_s) : 0);
        }},
    Row{"dl_job_train_step", "Newest train step, as dlrun last said.",
        [](const Told& t, int64_t) { return number_if(t.pace.step >= 0, double(t.pace.step)); }},
    Row{"dl_job_steps_per_second", "Train steps a second between saves, as dlrun last said.",
        [](const Told& t, int64_t) { return number_if(t.pace.steps_per_s > 0, t.pace.steps_per_s); }},
    Row{"dl_job_blocked_seconds", "For how long saves have held learners up since dlrun started, as it last said.",
        [](const Told& t, int64_t) { return number_if(t.pace.step >= 0, t.pace.blocked_s); }},
    Row{"dl_job_told_timestamp_seconds", "When dlrun last said so.",
        [](const Told& t, int64_t) { return number_if(t.pace.step >= 0, double(t.pace.at_s)); }},
};

void keep_first(size_t most, std::vector<Told>* jobs) {
  const auto order = [](const Told& told) {
    return std::tuple(!told.runs(), told.runs() ? told.record->start_s : told.record->submit_s, told.record->id);
  };
  std::sort(jobs->begin(), jobs->end(), [&](const Told& a, const Told& b) { return order(a) < order(b); });
  if (jobs->size() > most) jobs->resize(most);
}

}  // namespace

const char* job_state_name(const JobRecord& record, const SeenJob* seen) {
  const char* said = state_in(record.comment);
  if (record.phase == JobPhase::kPending) {
    if (record.held && said == kHalted) return kHalted;
    const bool for_quota = record.wait == observe::Wait::kLicenses || (seen != nullptr && seen->gated);
    return for_quota ? kQueued : kPending;
  }
  if (said == nullptr) return kRunning;
  return said == kQueued || said == kPending ? kDeploy : said;  // dlrun has not spoken yet in this start
}

std::string tenant_jobs_text(const observe::ClusterView& view, const observe::Records& records) {
  std::map<std::pair<std::string, const char*>, int> counts;
  std::map<std::string, int64_t> waits;
  for (const policy::Tenant& tenant : view.state.tenants) waits[tenant.name] = 0;
  for (const Told& told : told_jobs(view, records)) {
    ++counts[{told.tenant, told.state}];
    if (told.job == nullptr || told.runs()) continue;
    int64_t& longest = waits[told.tenant];
    longest = std::max(longest, queued_s(told, records.now_s));
  }
  std::map<std::pair<std::string, std::string>, int> sorted;
  for (const auto& [key, count] : counts) sorted[{key.first, key.second}] += count;
  std::string text;
  begin_metric(&text, "dl_tenant_jobs", "gauge", "Jobs that wait or run, by state.");
  for (const auto& [key, count] : sorted)
    text += fmt::format("dl_tenant_jobs{{tenant={},state=\"{}\"}} {}\n", label_value(key.first), key.second, count);
  begin_metric(&text, "dl_tenant_longest_wait_seconds", "gauge",
               "How long the tenant's oldest waiting job has waited.");
  for (const auto& [tenant, seconds] : waits)
    text += fmt::format("dl_tenant_longest_wait_seconds{{tenant={}}} {}\n", label_value(tenant), seconds);
  return text;
}

std::string job_series_text(const observe::ClusterView& view, const observe::Records& records, size_t most) {
  std::vector<Told> jobs = told_jobs(view, records);
  const size_t all = jobs.size();
  keep_first(most, &jobs);
  std::string text;
  begin_metric(&text, "dl_jobs_left_out", "gauge", "Jobs without series of their own, because of [metrics] max_jobs.");
  text += fmt::format("dl_jobs_left_out {}\n", all - jobs.size());
  std::vector<std::string> labels;
  for (Told& told : jobs) {
    labels.push_back(fmt::format("job_id=\"{}\",tenant={}", name_of(*told.record), label_value(told.tenant)));
    const PaceHint pace = pace_hint_in(told.record->comment);
    // What an earlier start of the job has left behind says nothing of this one.
    if (told.runs() && pace.at_s >= told.record->start_s && pace.at_s <= records.now_s) told.pace = pace;
  }
  begin_metric(&text, "dl_job_info", "gauge", "1 for each job: what it is called, and whose it is.");
  for (size_t i = 0; i < jobs.size(); ++i)
    text += fmt::format("dl_job_info{{{},user={},name={}}} 1\n", labels[i], label_value(jobs[i].record->user),
                        label_value(jobs[i].record->name));
  begin_metric(&text, "dl_job_state", "gauge", "1 for the state that a job is in.");
  for (size_t i = 0; i < jobs.size(); ++i)
    text += fmt::format("dl_job_state{{{},state=\"{}\"}} 1\n", labels[i], jobs[i].state);
  for (const Row& row : kRows) {
    begin_metric(&text, row.name, "gauge", row.help);
    for (size_t i = 0; i < jobs.size(); ++i)
      if (const Value value = row.value(jobs[i], records.now_s))
        text += fmt::format("{}{{{}}} {}\n", row.name, labels[i], *value);
  }
  return text;
}

}  // namespace dl::policyd
