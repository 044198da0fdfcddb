// SPDX-License-Identifier: Apache-2.0
// Recognises a start of the job that has nothing to run, because the job has ended already.
//
// Slurm marks a job to which it gave a grace time for preemption (GRACE_PREEMPT), and from 24.05 on puts a marked job
// back when its batch script ends, whatever its exit status (_slurm_rpc_complete_batch_script() in
// slurmctld/proc_req.c). Only then is the mark removed: a job that went back to the queue in another way keeps it (by
// dlrun's own requeue, which avoids Slurm's delay of two minutes; by Slurm's requeue after the grace time; by a pause).
// So it is put back once more after the attempt in which it completed or failed. Seen with 24.11.5, with and without
// slurm-dl; not with 26.05.5.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/record/event_log.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::supervise {

// Whether this Slurm puts a preempted job back once more. Pure.
bool puts_back_once_more(const slurm_cli::Version& version);

// Whether Slurm's mark is on the job: it was preempted, and no end was recorded that removes the mark. Pure.
bool is_marked_preempted(const std::vector<record::Event>& events);

// The command as one text of bounded length, by which a later start recognises it. Pure.
std::string command_text(const std::vector<std::string>& command);

// The event by which an earlier start recorded that `command` had ended, and that Slurm would start the job once more
// with restart number `slurm_restarts` (this start). None: there is something to run. Pure.
std::optional<record::Event> ended_before(const std::vector<record::Event>& events, const std::string& command,
                                          int slurm_restarts);

}  // namespace dl::supervise
