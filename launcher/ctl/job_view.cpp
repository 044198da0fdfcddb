// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/job_view.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "launcher/ctl/act_as.h"
#include "launcher/ctl/control_client.h"
#include "launcher/ctl/scaling_view.h"
#include "launcher/record/event_log.h"
#include "launcher/record/open_below.h"

namespace dl::ctl {
namespace {

using record::Event;

// A limit for the file of another user: it may not make root's dlctl slow or large.
constexpr int64_t kMaxEvents = int64_t{64} << 20, kMaxForeignEvents = int64_t{1} << 20;
constexpr std::chrono::milliseconds kAskDlrunTimeout{1000};

std::string read_scaling(const record::JobDir& dir) {
  const auto text = record::read_below(dir.root(), job_directory::kScaling, record::kMostScalingBytes);
  if (!text) return "";
  const auto record = record::parse_scaling(*text);
  if (!record || record->asked.min == record->asked.max) return "";
  const auto view = view_scaling(*record);
  return view ? scaling_sentence(*view) : "";
}

// The learners of the newest attempt, as their last events describe them.
std::vector<LearnerView> learners_from(const std::vector<Event>& events, int attempt) {
  std::map<int, LearnerView> by_rank;
  for (const Event& event : events) {
    if (!event.learner || event.attempt != attempt) continue;
    LearnerView& learner = by_rank[*event.learner];
    learner.rank = *event.learner;
    learner.state = record::state_name(event.state);
    if (!event.host.empty()) learner.host = event.host;
    if (event.step) learner.step = *event.step;
    learner.reason = event.reason;
    if (event.use) learner.use = event.use->numbers;
  }
  std::vector<LearnerView> learners;
  learners.reserve(by_rank.size());
  for (auto& item : by_rank) learners.push_back(std::move(item.second));
  return learners;
}

void take_answer(const protocol::JobStatus& status, JobView* view) {
  view->alive = true;
  view->restarts = status.restarts;
  view->vote = status.vote;
  view->data = status.data;
  view->pool = status.pool;
  if (!status.use.empty()) view->use = record::UsedInAll{status.use, {}};
  std::vector<LearnerView> learners;
  for (const protocol::LearnerStatus& learner : status.learners) {
    learners.push_back(
        {learner.rank, learner.host, learner.state, learner.step, learner.saved_step, learner.note, learner.use});
    view->step = std::max(view->step, learner.step);
    view->saved_step = std::max(view->saved_step, learner.saved_step);
  }
  if (!learners.empty()) view->learners = std::move(learners);
}

}  // namespace

Result<record::EventHistory> read_history(const Job& job) {
  DL_TRY_ASSIGN(const UniqueFd fd, record::open_below(job.dir.root(), "events.jsonl", record::Kind::kFile));
  return record::read_events(fd.get(), is_foreign(job) ? kMaxForeignEvents : kMaxEvents);
}

JobView view_job(const Job& job, bool ask) {
  JobView view;
  view.job = job;
  record::JobSummary summary;
  std::optional<Error> unread;
  if (job.has_dir()) {
    const bool foreign = is_foreign(job);
    auto history = read_history(job);
    if (history) {
      summary = record::summarise(history->events);
      view.learners = learners_from(history->events, summary.attempts);
      for (Event& event : history->events) {
        if (event.learner) continue;
        if (event.use) view.use = event.use;
        if (event.restart) view.restarts = *event.restart;
        if (event.step) view.step = std::max(view.step, *event.step);
        view.history.push_back(std::move(event));
      }
    } else if (history.error().code != Errc::kNotFound) {
      unread = history.error();
    }
    view.plan = read_plan(job.dir, foreign);
    view.scaling = read_scaling(job.dir);
  }
  view.attempt = summary.attempts;
  view.saved_step = summary.newest_step;
  if (view.attempt == 0 && job.comment) view.attempt = job.comment->attempt;
  if (view.saved_step < 0 && job.comment) view.saved_step = job.comment->step;
  const bool may_run = !job.slurm || job.slurm->state == "RUNNING" || job.slurm->state == "COMPLETING";
  if (ask && job.has_dir() && may_run) {
    auto answer = ask_dlrun(job, protocol::StatusQuery{}, kAskDlrunTimeout);
    if (answer && std::holds_alternative<protocol::JobStatus>(*answer)) {
      take_answer(std::get<protocol::JobStatus>(*answer), &view);
    }
  }
  view.step = std::max(view.step, view.saved_step);
  if (job.slurm) {
    view.name = job.slurm->name;
    view.user = job.slurm->user;
  }
  // If the control file belongs to another user and cannot be read, it is unknown whether dlrun lives; but not of a job
  // that Slurm does not have any more.
  const bool unknown = !ask || (!job.forgotten && job.has_dir() && ::access(job.dir.control().c_str(), F_OK) == 0 &&
                                ::access(job.dir.control().c_str(), R_OK) != 0);
  const auto forgotten = job.forgotten ? std::optional(job.accounted_state) : std::nullopt;
  view.shown = shown_state(job.slurm, job.comment, summary, view.alive || unknown, forgotten);
  if (unread && !job.slurm && !job.comment && job.accounted_state.empty() && !view.alive) {
    view.shown = ShownState();
    view.shown.unknown = true;
    // The cause alone: the line of the directory shows the path.
    const size_t why = unread->text.rfind(": ");
    view.shown.reason =
        "its record cannot be read: " + (why == std::string::npos ? unread->text : unread->text.substr(why + 2));
  }
  return view;
}

std::vector<Job> runs_at_work(const Job& job) {
  std::vector<Job> runs = runs_of(job);
  const auto at_rest = [](const Job& run) { return run.run > 0 && ::access(run.dir.control().c_str(), F_OK) != 0; };
  runs.erase(std::remove_if(runs.begin(), runs.end(), at_rest), runs.end());
  if (runs.empty()) runs.push_back(job);
  return runs;
}

IdleHint unused_gpus(const JobView& view) {
  const bool runs = view.job.slurm && view.job.slurm->state == "RUNNING";
  return runs && view.job.comment ? view.job.comment->idle : IdleHint{};
}

}  // namespace dl::ctl
