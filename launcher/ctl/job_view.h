// SPDX-License-Identifier: Apache-2.0
// All that can be told of one job: Slurm's word, its record, its plan, and dlrun itself while it runs.
#pragma once

#include <string>
#include <vector>

#include "common/json/json.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/shown_state.h"
#include "launcher/record/event_log.h"

namespace dl::ctl {

// From plan.json; empty where it could not be read.
struct PlanFacts {
  std::string framework, version, node_list;
  int learners = 0;
  int gpus_per_learner = 0;
  std::string checkpoint;  // as --dl-checkpoint takes it
  std::string work_dir;
  std::string job_id;
};

struct LearnerView {
  int rank = 0;
  std::string host;
  std::string state;  // name of a state, empty if unknown
  int64_t step = -1, saved_step = -1;
  std::string reason;
};

struct JobView {
  Job job;
  std::string name, user;
  ShownState shown;
  int attempt = 0;
  int restarts = 0;
  int64_t step = -1;        // newest train step that is known
  int64_t saved_step = -1;  // newest train step known to be saved
  bool alive = false;       // dlrun answered
  PlanFacts plan;
  std::vector<LearnerView> learners;   // of the newest attempt; may be empty
  std::vector<record::Event> history;  // events of the job, without those of learners
};

// Never fails: what cannot be read stays empty. ask: also ask dlrun, if its control file can be read (at most one
// second).
JobView view_job(const Job& job, bool ask);

// GPUs that it holds now and has not used for long, as dlrun wrote into its comment.
IdleHint unused_gpus(const JobView& view);

// What `dlctl status JOB` prints, and one element of what `--json` prints.
std::string view_text(const JobView& view);
Json view_json(const JobView& view);

}  // namespace dl::ctl
