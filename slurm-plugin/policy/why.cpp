// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/why.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "slurm-plugin/policy/admission.h"
#include "slurm-plugin/policy/job_id.h"

namespace dl::policy {
namespace {

void find_who_would_have_to_end(const ClusterState& state, const Job& job, Why* why) {
  std::vector<int> running;
  for (size_t i = 0; i < state.jobs.size(); ++i) {
    if (state.jobs[i].running) running.push_back(static_cast<int>(i));
  }
  const FreeGpus free(state);
  VictimSet best;
  int budget = state.search_budget;
  for (int type = 0; type < state.type_count(); ++type) {
    if (job.type != kAnyType && job.type != type) continue;
    auto set = find_victims(state, free, type, job.gpus_per_learner, job.min_learners, running, &budget, false);
    if (!set || (why->type != kAnyType && !less_loss(*set, best))) continue;
    best = std::move(*set);
    why->type = type;
  }
  for (const Victim& victim : best.victims) why->would_have_to_end.push_back(victim.job);
}

std::string names_of(const ClusterState& state, const std::vector<int>& jobs) {
  constexpr size_t kMost = 5;
  std::string text;
  for (size_t i = 0; i < jobs.size() && i < kMost; ++i) {
    const Job& job = state.jobs[jobs[i]];
    text += fmt::format("{}{} of tenant '{}' ({} GPUs)", i ? ", " : "", job_name(job.id),
                        state.tenants[job.tenant].name, job.gpus());
  }
  if (jobs.size() > kMost) text += fmt::format(" and {} more", jobs.size() - kMost);
  return text;
}

// Of a job that has room, which a gang that smaller jobs passed is to have.
std::string reserved_text(const ClusterState& state, const Waiting& waiting) {
  const Job& gang = state.jobs[waiting.reserved_for];
  const auto time = [](int64_t seconds) {
    return format_duration(std::chrono::seconds(std::max<int64_t>(0, seconds)));
  };
  return fmt::format(
      "it asks for {} GPUs; {} are free, but are kept for job {} of tenant '{}' ({} GPUs), which has waited for {} "
      "while "
      "smaller jobs passed it, and is expected to start within {}; a job whose time limit (--time) ends before that "
      "may "
      "start at once",
      waiting.asked, waiting.free, job_name(gang.id), state.tenants[gang.tenant].name,
      gang.min_learners * gang.gpus_per_learner, time(state.now_s - gang.submit_s), time(waiting.reserved_s));
}

std::string reason_text(const ClusterState& state, const Job& job, const Waiting& waiting) {
  const std::string& tenant = state.tenants[job.tenant].name;
  switch (waiting.reason) {
    case Reason::kVictimsLeaving:
      if (waiting.lent)
        return fmt::format(
            "its {} GPUs are lent to tenant '{}', and a tenant that borrows more for its weight is "
            "giving them up",
            waiting.asked, tenant);
      if (waiting.within_tenant)
        return fmt::format("its {} GPUs are guaranteed, and jobs of tenant '{}' that may borrow give way to it",
                           waiting.asked, tenant);
      return fmt::format("its {} GPUs are tenant '{}''s own and are being taken back", waiting.asked, tenant);
    case Reason::kVictimsProtected:
      if (waiting.within_tenant)
        return fmt::format(
            "its {} GPUs are guaranteed; jobs of tenant '{}' that may borrow give way to it, and may run "
            "for {} more",
            waiting.asked, tenant, format_duration(std::chrono::seconds(std::max<int64_t>(0, waiting.seconds))));
      return fmt::format("its {} GPUs are tenant '{}''s own; who holds them may run for {} more", waiting.asked, tenant,
                         format_duration(std::chrono::seconds(std::max<int64_t>(0, waiting.seconds))));
    case Reason::kQuota:
      return fmt::format(
          "it asks for {} guaranteed GPUs; the quota of tenant '{}' is {}, of which {} are in use by "
          "jobs that do not give way",
          waiting.asked, tenant, waiting.limit, waiting.used);
    case Reason::kBorrowLimit:
      return fmt::format("it asks for {} GPUs{}; tenant '{}' borrows {} and may borrow {}", waiting.asked,
                         waiting.own > 0 ? fmt::format(", of which {} are within its quota", waiting.own) : "", tenant,
                         waiting.used, waiting.limit);
    case Reason::kUserLimit:
      return fmt::format("it asks for {} GPUs; user {} has {} of the {} GPUs a user of tenant '{}' may have",
                         waiting.asked, state.users[job.user], waiting.used, waiting.limit, tenant);
    case Reason::kKept:
      return fmt::format("it asks for {} GPUs; {} are free, but the tenants that own them do not lend them",
                         waiting.asked, waiting.free);
    case Reason::kNoPlace:
      if (waiting.reserved_for >= 0) return reserved_text(state, waiting);
      break;
  }
  if (waiting.free >= waiting.asked)
    return fmt::format("it asks for {} GPUs, {} for each learner; {} are free, but not enough of them on one node",
                       waiting.asked, job.gpus_per_learner, waiting.free);
  return fmt::format("it asks for {} GPUs; {} are free", waiting.asked, waiting.free);
}

}  // namespace

Why why(const ClusterState& state, const Decision& decision, int index) {
  Why answer;
  const Job& job = state.jobs[index];
  const auto found = std::find_if(decision.waiting.begin(), decision.waiting.end(),
                                  [index](const Waiting& waiting) { return waiting.job == index; });
  if (found == decision.waiting.end()) {
    answer.sentence = fmt::format("job {} {}", job_name(job.id), job.running ? "runs" : "starts now");
    return answer;
  }
  answer.waiting = *found;
  const Admission admission = admit(state, job);
  if (!admission.admitted()) {
    answer.can_ever_run = false;
    answer.sentence = fmt::format("job {} can never run: {}", job_name(job.id), admission.sentence);
    return answer;
  }
  answer.sentence = fmt::format("job {} waits: {}", job_name(job.id), reason_text(state, job, *found));
  if (found->kept_for) answer.sentence += "; what becomes free is kept for it";
  if (found->reserved_for >= 0) return answer;  // nobody's end would let it pass
  if (found->reason == Reason::kNoPlace || found->reason == Reason::kVictimsProtected) {
    find_who_would_have_to_end(state, job, &answer);
    if (!answer.would_have_to_end.empty())
      answer.sentence += "; it could start if these ended: " + names_of(state, answer.would_have_to_end);
  }
  return answer;
}

}  // namespace dl::policy
