// SPDX-License-Identifier: Apache-2.0
// A reservation for a gang that has waited longer than the cluster's patience while smaller jobs passed it: free GPUs
// are kept for it until enough running jobs have reached their time limits. Others may start meanwhile if they end
// before that, or if the gang still finds its place beside them (backfill).
//
// The cap: GPUs are kept for no longer than the gang has waited already. So they idle for it during at most half of the
// time since its submission, however long others run. The cap grows as it waits on, so its turn comes in the end.
#pragma once

#include <optional>

#include "slurm-plugin/policy/round.h"

namespace dl::policy {

class Reservation {
 public:
  // For the oldest job of the queue to which that applies; nothing if it applies to none of the oldest eight that have
  // lost patience. To be called after the claims were served.
  static std::optional<Reservation> find(const Round& round);
  struct End;  // of a job that runs or starts

  int job() const { return job_; }
  int64_t in_s() const { return at_s_ - now_s_; }  // until it starts
  bool starts_now() const { return at_s_ == now_s_; }
  int type() const { return type_; }
  const std::vector<Part>& parts() const { return parts_; }
  // Does a job that starts now and runs for at most limit_s (0: not known) end before the gang starts?
  bool ends_before(int64_t limit_s) const { return limit_s > 0 && now_s_ + limit_s <= at_s_; }
  // May a job that runs for at most limit_s (0: not known) take these GPUs? If so they are counted as taken.
  bool admit(int64_t limit_s, int type, const std::vector<Part>& parts, int gpus_per_learner);
  // The same for a job to which `victims`, running jobs, yield (balance.h). GPUs of victims that end before the gang
  // starts are not counted again: the reservation expects them to be free by then.
  bool admit_for(const Round& round, const std::vector<Victim>& victims, int64_t limit_s, int type,
                 const std::vector<Part>& parts, int gpus_per_learner);

 private:
  Reservation(const Round& round, int job, FreeGpus room)
      : room_(std::move(room)), job_(job), now_s_(round.state.now_s) {}
  struct Tries;
  static std::optional<Reservation> of(const Round& round, int index, Tries* tries);

  FreeGpus room_;  // what will be free when it starts
  int job_;
  int type_ = 0;
  int gpus_per_learner_ = 1;
  int learners_ = 1;
  int64_t now_s_;
  int64_t at_s_ = 0;
  std::vector<Part> parts_;
};

}  // namespace dl::policy
