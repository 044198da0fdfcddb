// SPDX-License-Identifier: Apache-2.0
// Whether a learner that was killed was killed for want of memory: the kernel counts its victims, for each memory
// cgroup (v1 and v2) and for the machine. Read before and after; the counters are never reset.
#pragma once

#include <cstdint>
#include <string>

namespace dl::agent {

struct OomCounts {
  int64_t cgroup = -1;   // processes of our cgroup that were killed; -1 = unknown
  int64_t machine = -1;  // of this machine; -1 = unknown
};

// Whether a learner that ended so (its exit code, or the signal that killed it) died for want of memory. The cgroup's
// count speaks also for a learner that failed because one of its children was killed; the machine's alone only for a
// SIGKILL that dlrun had not asked for. Pure.
bool died_of_memory(int exit, int signal, bool asked, const OomCounts& before, const OomCounts& after);

// The file and key of our memory cgroup's count, from the texts of /proc/self/cgroup and /proc/self/mountinfo. Pure.
// Version 2's memory.events is preferred; version 1's memory.oom_control has the count since Linux 4.13.
struct OomFile {
  std::string path;     // empty: none
  std::string at_root;  // to be tried if path is not there: the mount's own root (a cgroup namespace, a container)
};
OomFile oom_file(const std::string& cgroup, const std::string& mountinfo);
// The number behind "oom_kill " in such a file, or in /proc/vmstat; -1 if there is none. Pure.
int64_t oom_kills(const std::string& text);

class OomWatch {
 public:
  // Finds the file and takes the counts as they are now.
  void start();
  const OomCounts& at_start() const { return before_; }
  // A few microseconds.
  OomCounts now() const;

 private:
  std::string path_;
  OomCounts before_;
};

}  // namespace dl::agent
