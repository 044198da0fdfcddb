// SPDX-License-Identifier: Apache-2.0
// Slurm's nodes and jobs as plain values. They have only the fields that we need and none of libslurm's types, so that
// all code that uses them can be tested without Slurm. Times are seconds since 1970; 0: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dl::observe {

struct NodeRecord {
  std::string name;
  std::string gres;     // "gpu:a100:4(S:0-1)"
  bool usable = false;  // jobs can be started on it
};

// A switch that nodes are connected to.
struct SwitchRecord {
  std::string name;
  std::string nodes;  // as Slurm writes lists: "n[1-2]"
};

enum class JobPhase {
  kPending,
  kRunning,     // or suspended: then it still holds its GPUs
  kCompleting,  // its processes are being ended; it holds its GPUs a little longer, and may have been requeued already
  kOver,
};

// The reason for which Slurm lets a job wait, as far as it matters to the policy.
enum class Wait {
  kNothing,   // it waits only for its turn, resources or licences: a decision of the policy can start it
  kLicenses,  // as kNothing, and Slurm says that licences are lacking
  kTime,      // it waits for its begin time
  kOther,     // it is held, or waits for a dependency, a limit or a partition that is down: no job yields to it
};

struct JobRecord {
  int64_t id = 0;
  int64_t array = 0;     // id of the job array that it belongs to; 0: none
  int64_t element = -1;  // its index in the array; -1: not in an array, or the record stands for `elements`
  std::string elements;  // indexes of the waiting elements that this record stands for: "0-4,7,8-20:4%2", maybe
                         // cut short by "..."; empty: it is one job
  std::string user;      // its owner's name, or number where it has none
  std::string name;      // as its user called it
  std::string account;
  std::string admin_comment;  // it holds our label
  std::string comment;        // written by the user and by dlrun: a hint, never trusted
  std::string licenses;
  JobPhase phase = JobPhase::kOver;
  Wait wait = Wait::kNothing;  // only for pending jobs
  bool held = false;           // pending, with a priority of 0
  bool requeueable = false;    // a batch job that Slurm may put back
  int64_t requeues = 0;        // how often it was put back into the queue
  int64_t submit_s = 0;
  int64_t begin_s = 0;      // Slurm does not start it before this time
  int64_t start_s = 0;      // when a running job was started
  int64_t limit_s = 0;      // its time limit; 0: none, or not known
  int64_t site_factor = 0;  // with Slurm's offset subtracted: 0 has no effect
  int64_t nice = 0;         // with Slurm's offset subtracted, too
  int64_t priority = 0;     // Slurm's priority, which includes the site factor
  uint32_t min_nodes = 0;   // that it asks for, only for pending jobs; 0: not known
  uint32_t max_nodes = 0;   // only for pending jobs; 0: not given, or, on 22.05, not known since it was put back
  int node_gpus = 0;        // GPUs that it asked for on each node; 0: it did not ask by node
  std::string nodes;        // as Slurm writes lists: "n[1-2]"
  std::vector<std::string> gres_by_node;  // in the order of `nodes`; empty if Slurm does not say
};

// A job that has ended and that slurmctld still remembers (MinJobAge, 5 minutes by default).
struct EndedRecord {
  enum class How {
    kCompleted,
    kCancelled,
    kFailed,
    kSystem,  // it failed because of a node
  };
  int64_t id = 0;
  bool element = false;  // of a job array
  How how = How::kFailed;
  std::string account;
};

struct Records {
  int64_t now_s = 0;
  std::vector<NodeRecord> nodes;
  std::vector<SwitchRecord> leaf_switches;  // empty if Slurm knows no topology
  std::vector<JobRecord> jobs;
  std::vector<EndedRecord> ended;
};

}  // namespace dl::observe
