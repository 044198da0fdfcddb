// SPDX-License-Identifier: Apache-2.0
// Exit statuses of dlrun. If a learner failed, dlrun returns the status of the first one instead (its exit code, or 128
// + signal). dlrun(1) has the same table.
#pragma once

namespace dl {

constexpr int kExitUsage = 2;      // bad option or request; nothing was started
constexpr int kExitData = 65;      // data could not be fetched, or the results of a training that ended well not stored
constexpr int kExitInternal = 70;  // a fault of slurm-dl itself
constexpr int kExitCannotStart = 71;  // agents could not be started, or did not report
constexpr int kExitNoDirectory = 73;  // job directory or checkpoint directory cannot be used, or is held by another job
constexpr int kExitNodeLost = 74;     // an agent or its node was lost
constexpr int kExitSaved = 75;        // stopped on request, state saved (EX_TEMPFAIL: run me again)
constexpr int kExitNotSaved = 76;     // stopped on request without a save
constexpr int kExitHang = 77;         // the learners made no progress for --dl-hang-timeout
// A learner exits with this so that dlrun neither restarts nor requeues the job but fails with the same status.
constexpr int kExitDoNotRestart = 93;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;  // the command does not exist

}  // namespace dl
