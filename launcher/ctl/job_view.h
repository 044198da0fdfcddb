// SPDX-License-Identifier: Apache-2.0
// Everything dlctl can show of one job, from Slurm, from its record and launch plan, and from dlrun while it runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/job_pace.h"
#include "launcher/ctl/plan_facts.h"
#include "launcher/ctl/shown_state.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/event_log.h"

namespace dl::ctl {

struct LearnerView {
  int rank = 0;
  std::string host;
  std::string state;  // name of a state, empty if unknown
  int64_t step = -1, saved_step = -1;
  std::string reason;
  std::map<std::string, double> use{};  // in this attempt, by name (use::learner_numbers()), as far as it was measured
};

struct JobView {
  Job job;
  std::string name, user;
  ShownState shown;
  int attempt = 0;
  int restarts = 0;
  int64_t step = -1;        // newest known train step; -1: unknown
  int64_t saved_step = -1;  // newest train step known to be saved; -1: none
  bool alive = false;       // dlrun answered
  PlanFacts plan;
  JobPace pace;                          // only if read_pace() was called
  std::string scaling;                   // how it scales, in one sentence; empty: not measured, or it cannot change
  std::optional<record::UsedInAll> use;  // of the dlrun that runs, or of the last one that has ended
  protocol::PoolStatus pool;             // its elastic pool of servers; likewise
  std::string data;                      // how far data is fetched or results are stored; only while dlrun answers
  protocol::VoteStatus vote;             // what learners say of their number; only while dlrun answers
  std::vector<LearnerView> learners;     // of the newest attempt; may be empty
  std::vector<record::Event> history;    // events of the job, without those of learners
};

// Never fails: what cannot be read stays empty. ask: also asks dlrun, if its control file can be read, for at most one
// second.
JobView view_job(const Job& job, bool ask);

// The events in the job directory; of another user's job the newest 1 MiB of them. Errors of record::open_below().
Result<record::EventHistory> read_history(const Job& job);

// For a list of jobs: those dlruns of a job that are running, or the job itself if none is.
std::vector<Job> runs_at_work(const Job& job);

// The GPUs that the job holds but has not used for long, as dlrun wrote into its Slurm comment.
IdleHint unused_gpus(const JobView& view);

// What learners say of their number: "+2 by 3 of 4 learners: loader stalls 40 %". Empty: nothing. The reason is made
// safe for a terminal.
std::string vote_text(const protocol::VoteStatus& vote);

// What `dlctl status JOB` prints, and one element of what `--json` prints. with_use: also what each learner has used.
std::string view_text(const JobView& view, bool with_use = false);
Json view_json(const JobView& view);

}  // namespace dl::ctl
