// SPDX-License-Identifier: Apache-2.0
// The NodeName lines of slurm.conf in job_submit_dl.so, read again when one of the files changes.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "slurm-plugin/job_submit/node_lines.h"

namespace dl {

class NodeLinesCache {
 public:
  using Clock = std::chrono::steady_clock;

  // path: of slurm.conf; empty if it is not known: get() then returns an incomplete result.
  explicit NodeLinesCache(std::string path) : path_(std::move(path)) {}

  // read_s: when slurmctld read slurm.conf, Unix time. A file that was changed since is not in force yet, so the result
  // is then incomplete. The files are looked at once per second at most; while one thread looks, the others get what
  // was known before. Never null. Safe to call from any thread.
  std::shared_ptr<const NodeLines> get(int64_t read_s, Clock::time_point now = Clock::now());

 private:
  void look(Clock::time_point now);

  const std::string path_;

  std::mutex look_mutex_;  // held by the thread that looks at the files; guards the next three
  bool looked_ = false;
  Clock::time_point looked_at_{};
  std::vector<std::string> files_, marks_;  // that were read, and their marks

  std::mutex mutex_;  // held for a few instructions; guards the members below
  std::shared_ptr<const NodeLines> current_ = std::make_shared<NodeLines>();
  int64_t changed_s_ = 0;  // when the newest of the files was changed
};

}  // namespace dl
