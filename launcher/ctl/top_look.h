// SPDX-License-Identifier: Apache-2.0
// The looks of `dlctl top` at jobs: Slurm is asked once in ten seconds at most, the job directories at each look.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/ctl/find_job.h"
#include "launcher/top/snapshot.h"

namespace dl::ctl {

struct TopOptions {
  std::vector<std::string> jobs;  // job ids, and directories of runs without Slurm; empty: all of the user's in Slurm
  bool all_users = false;
  std::string sort = "state";
  bool once = false;
};

class TopLook {
 public:
  static constexpr int64_t kSlurmEveryMs = 10'000;

  // Finds the directories that are named. kNotFound for a name that is no folder or no job directory, kInvalid for a
  // checkpoint directory; kNotFound, too, where Slurm's commands are not installed and no run without Slurm is named or
  // lies in the current folder.
  static Result<TopLook> make(const TopOptions& options);

  // opened: Row::id of the job of which everything is read; empty: none. Never fails: what cannot be read is missing,
  // and a problem is named.
  top::Snapshot look(const std::string& opened);

 private:
  TopLook() = default;
  void ask_slurm();
  void add_rows(const Job& job, bool ended, const std::string& opened, top::Snapshot* snapshot);
  bool wants(const std::string& id) const;

  std::vector<std::string> ids_;  // empty: all jobs
  std::vector<Job> local_;        // runs without Slurm, and where Slurm's commands are not installed all that are named
  bool all_users_ = false, ask_ = true;
  int64_t slurm_ms_ = 0;
  std::string problem_;
  std::vector<Job> jobs_;   // as Slurm has listed them
  std::vector<Job> ended_;  // that Slurm listed before, the newest last
  std::map<std::string, int64_t>
      silent_;  // of which dlrun did not answer: until when (monotonic_ms()) it is not asked again
};

}  // namespace dl::ctl
