// SPDX-License-Identifier: Apache-2.0
// Ends all processes of a learner. The agent is a subreaper, so every process that a learner starts stays a descendant
// of it, even after setsid() or the death of its parent. All of them can therefore be found, killed and reaped.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace dl {

// All processes below `root` (not itself), from /proc. ended: also those that have ended and for which nobody has
// waited.
std::vector<pid_t> descendants_of(pid_t root, bool ended = false);

// Kills all descendants of the calling process with SIGKILL and reaps them, until none is left or `limit` has passed (a
// process in an uninterruptible wait cannot be killed). spared: children to leave alone, which must have no
// children themselves; zeros stand for none. Returns how many were found alive.
int kill_descendants(std::chrono::milliseconds limit, const std::vector<pid_t>& spared = {});

// Kills every process of this user on this machine whose initial environment contains `entry` ("DL_RUN_ID=..."), except
// the caller and its ancestors. Needed after an agent was killed: its learner dies with it, but processes that the
// learner had detached do not. Returns how many there were.
int sweep_marked(const std::string& entry);

}  // namespace dl
