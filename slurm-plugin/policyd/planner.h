// SPDX-License-Identifier: Apache-2.0
// Turns a decision into the changes that Slurm needs: compares what each job should be (policy/wanted.h) with what it
// is (diff.h). Pure: the same view and decision give the same actions, and none are left once they were carried out.
// What was done in earlier rounds is read from the jobs themselves (labels, licences, begin times), so a restarted
// daemon goes on where the last one stopped. What follows from Slurm's records alone is settled here, and has nothing
// to match it in dlsim: notices to jobs that cannot save, elements of an array that share a gate, jobs of tenants that
// were removed.
//
// What waits and how it is kept waiting:
//   claims and jobs that may yet become claims   hold own tokens as licences: slurmctld lets them wait for those
//                                                (a gate, too, where their user would hold more than max_user_gpus)
//   borrowers whose turn it is                   no gate; ranked by fair share below all claims
//   of a long queue those that could start next  no gate as long as gates of others are missing; ranked behind those
//   other borrowers                              a gate: their begin time is kept some time ahead. If the daemon dies,
//                                                the time passes, and Slurm goes on without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/observe/slurm_client.h"
#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/sizes/in_place.h"
#include "slurm-plugin/policy/wanted.h"

namespace dl::policyd {

enum class ActionKind {
  kCharge,    // a running job gets another charge
  kOrder,     // a pending job gets other licences, another rank or another gate
  kYield,     // a victim is asked to save and give way
  kWithdraw,  // a victim is told that it need not yield any more
  kRequeue,   // a victim that should save still runs at the deadline, and is requeued
  kPutBack,   // a victim that cannot save is requeued and begins anew
  kEnd,       // a victim that can neither save nor be requeued is ended, as its user was told at submission
  kReturn,    // a victim has yielded and is back in the queue
  kHold,      // a pending job is held, since its tenant is no longer declared
  kResize,    // a running job is asked to save and to start again at another size
  kGrow,      // a running job is offered free nodes beside those that it has
  kDrop,      // a pending job is ended, since it is not admitted (dropping.h)
  kRelease,   // such a job is released, since its tenant is declared again
};
const char* action_name(ActionKind kind);  // "charge", "order", ...; a static text

struct Action {
  ActionKind kind = ActionKind::kOrder;
  int64_t job = 0;  // an id of policy/job_id.h
  observe::JobUpdate update;
  bool signal = false;   // then SIGUSR2 is sent to its steps, so that dlrun reads from the label what it is asked for
  bool requeue = false;  // then Slurm is told to requeue it
  bool end = false;      // or to end it
  // All that it does is to set or renew a gate, and nobody starts who may not if that is done later (pace.h).
  bool can_wait = false;
  bool renews = false;   // the job is behind a gate already
  std::string notice;    // a line for the job's output; may be empty
  int64_t slurm_id = 0;  // Slurm's own id of that job, for the notice
  std::string why;       // one clause for the log
};

// `decision` is decide(view.state), `resizes` those of decide_steadily() and `growths` those of grow_in_place()
// (resizing.h). The actions are to be
// carried out in their order: first those that make room, then those that start jobs, then those that keep jobs
// waiting, last those that can wait.
std::vector<Action> needed_actions(const observe::ClusterView& view, const observe::Records& records,
                                   const policy::Decision& decision, const policy::Grace& grace,
                                   const std::vector<policy::Resize>& resizes = {},
                                   const std::vector<policy::Growth>& growths = {});

}  // namespace dl::policyd
