// SPDX-License-Identifier: Apache-2.0
// The metrics of dlpolicyd in Prometheus' text format. A metric that FfDL has, too, has FfDL's name. Pure.
#pragma once

#include <string>
#include <vector>

#include "slurm-plugin/policyd/planner.h"

namespace dl::policyd {

// Counts since this process began.
struct Totals {
  int64_t asked = 0;      // victims asked to yield
  int64_t requeued = 0;   // victims that had not yielded by the deadline and were requeued
  int64_t put_back = 0;   // victims that cannot save and were requeued
  int64_t ended = 0;      // victims that can neither save nor be requeued and were ended
  int64_t returned = 0;   // victims that have yielded and are back in the queue
  int64_t dropped = 0;    // waiting jobs that were ended, since they were not admitted
  int64_t withdrawn = 0;  // victims told that they need not yield any more
  int64_t updates = 0;    // changes of jobs, of every kind; each is a message to slurmctld
  // Changes that failed: slurmctld did not permit them to this user, did not answer, or refused them for another
  // reason.
  int64_t denied = 0, unreachable = 0, refused = 0;
  int64_t changes_late = 0;     // changes that the last round had no time for; until then jobs may start out of turn
  int64_t gates_later = 0;      // gates that were left for later rounds, of jobs that cannot start meanwhile
  double round_s = 0;           // duration of the last complete round
  bool config_in_force = true;  // false: dl.toml has changed since it was read
};
// Counts an action that was carried out.
void count_action(ActionKind kind, Totals* totals);
// Counts an action that failed. Failures because the job ended or started in the meantime are not counted.
void count_failure(Errc code, Totals* totals);

std::string metrics_text(const observe::ClusterView& view, const policy::Decision& decision, const Totals& totals);

}  // namespace dl::policyd
