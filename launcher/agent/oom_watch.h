// SPDX-License-Identifier: Apache-2.0
// Finds out whether a learner was killed because memory ran out. The kernel counts the processes that it kills for that
// reason, for each memory cgroup (v1 and v2) and for the machine, and never resets these counts. They are read before
// the learner starts and after it has ended.
#pragma once

#include <cstdint>
#include <string>

namespace dl::agent {

struct OomCounts {
  int64_t cgroup = -1;   // processes of our cgroup that were killed; -1 = unknown
  int64_t machine = -1;  // of this machine; -1 = unknown
};

// Whether a learner that ended with this exit code, or by this signal, died because memory ran out. If the cgroup's
// count has risen, this is true for any failure, since a child of the learner may be the one that was killed; if only
// the machine's count has risen, it is true only for SIGKILL. It is false if dlrun had asked the learner to end. Pure.
bool died_of_memory(int exit, int signal, bool asked, const OomCounts& before, const OomCounts& after);

// The file that has the count of our memory cgroup, from the texts of /proc/self/cgroup and /proc/self/mountinfo:
// memory.oom_control if the memory controller is version 1's (since Linux 4.13), else memory.events. Pure.
struct OomFile {
  std::string path;     // empty: none
  std::string at_root;  // to be tried if path is missing (in a container): the same file in the mount's root
};
OomFile oom_file(const std::string& cgroup, const std::string& mountinfo);
// The number behind "oom_kill " in such a file, or in /proc/vmstat; -1 if there is none. Pure.
int64_t oom_kills(const std::string& text);

class OomWatch {
 public:
  // Finds the file and reads the counts that later ones are compared with.
  void start();
  const OomCounts& at_start() const { return before_; }
  // Takes a few microseconds.
  OomCounts now() const;

 private:
  std::string path_;
  OomCounts before_;
};

}  // namespace dl::agent
