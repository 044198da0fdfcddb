// SPDX-License-Identifier: Apache-2.0
// From a decision to what must be changed in Slurm for it: what each job should be (policy/wanted.h) beside what it is
// (diff.h). Pure: the same view and decision give the same actions, and once they are carried out there is nothing left
// to do. All that was done before is read from the jobs themselves (labels, licences, begin times), so a daemon that
// starts anew goes on where the last one stopped.
//
// What waits and how it is kept waiting:
//   claims and jobs that may yet become claims   hold own tokens as licences: slurmctld lets them wait for those
//                                                (a gate, too, where their user would hold more than max_user_gpus)
//   borrowers whose turn it is                   no gate; ranked by fair share below all claims
//   other borrowers                              a gate: their begin time is kept some time ahead. If the daemon dies,
//                                                the time passes, and Slurm goes on without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/observe/slurm_client.h"
#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/wanted.h"

namespace dl::policyd {

enum class ActionKind {
  kCharge,    // a running job is counted differently
  kOrder,     // a pending job: its licences, rank or gate
  kYield,     // a victim is asked to save and give way
  kWithdraw,  // a victim need not any more
  kRequeue,   // a victim that was to save did not go by the deadline
  kPutBack,   // one that cannot save: it begins anew
  kEnd,       // one that cannot be put back either, as its user was told
  kReturn,    // a victim has gone and is in the queue again
  kHold,      // a pending job's tenant is not declared any more
  kRelease,   // it is declared again
};
const char* action_name(ActionKind kind);  // "charge", "order", ...; static

struct Action {
  ActionKind kind = ActionKind::kOrder;
  int64_t job = 0;  // policy/job_id.h
  observe::JobUpdate update;
  bool signal = false;   // then SIGUSR2 to its steps: dlrun looks up what is asked of it
  bool requeue = false;  // then Slurm's requeue
  bool end = false;      // or its end
  std::string notice;    // a line for the job's output; may be empty
  int64_t slurm_id = 0;  // of the job that it is for
  std::string why;       // one clause for the log
};

struct PlanOptions {
  int64_t grace_s = 120;  // from asking a victim to Slurm's requeue
  // Slurm's, from SIGTERM to SIGKILL. A victim that cannot save is put back or ended so much before the deadline (half
  // of the grace at most): also one that ignores SIGTERM has gone by then.
  int64_t kill_wait_s = 0;
};

// `decision` is decide(view.state). The order of the actions is the order to carry them out in: what makes room comes
// first, then what starts jobs, last what keeps them waiting.
std::vector<Action> plan(const observe::ClusterView& view, const observe::Records& records,
                         const policy::Decision& decision, const PlanOptions& options);

}  // namespace dl::policyd
