// SPDX-License-Identifier: Apache-2.0
// What is noticed of an attempt's learners while they train, and only reported: learners that are slower than the
// others, GPUs that are not used, output that is missing in logs. The user is told, events.jsonl and the job's comment
// too. And what learners say of their number, which `dlctl status` shows. There is no clock in this class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/site/site_config.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/idle_gpus.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/log_losses.h"
#include "launcher/supervise/straggler.h"
#include "launcher/supervise/voice.h"
#include "launcher/supervise/votes.h"

namespace dl::supervise {

class LearnerWatch {
 public:
  // voice is borrowed.
  LearnerWatch(const Voice* voice, const SiteIdle& site) : voice_(voice), site_(site) {}

  // A new attempt begins, of these many learners: what was noticed of the last one's is forgotten, except for losses of
  // output. journal: borrowed.
  void begin_attempt(Journal* journal, int attempt, size_t learners, int gpus_each);

  // How often agents are to measure the use of their GPUs: often enough not to miss a short use within the time after
  // which a GPU counts as idle. 0: not at all.
  int64_t gpu_look_ms() const;
  // An agent's report of the use of its learner's GPUs, in percent.
  void gpus_used(int rank, int percent, int64_t now_ms) { idle_.add(rank, now_ms, percent); }
  // Looks whether what learners write to standard output, and dlrun to standard error, is lost. Only errors go there if
  // quiet.
  void look_at_own_output(bool quiet);
  // A learner's log lacks this much so far.
  void log_lost(int rank, const protocol::LogLost& lost);

  // A learner says how many learners the job needs.
  void voted(int rank, const Vote& vote, int64_t now_ms) { votes_.cast(rank, vote, now_ms); }

  // To be called each second while learners run.
  void look(const std::vector<Learner>& learners, int64_t now_ms, int64_t now_unix_ms);

  // What `dlctl status` shows of this learner; empty: nothing.
  std::string note(int rank, int64_t now_ms) const;
  const Votes& votes() const { return votes_; }
  const LogLosses& log_losses() const { return log_losses_; }  // of all attempts

 private:
  void tell_loss(const std::string& news);
  void look_for_stragglers(const std::vector<Learner>& learners);
  void look_for_idle_gpus(int64_t now_ms, int64_t now_unix_ms);

  const Voice* voice_;
  SiteIdle site_;
  Journal* journal_ = nullptr;
  int attempt_ = 0, gpus_each_ = 0;
  SlowLearners slow_;
  IdleGpus idle_;
  Votes votes_;
  LogLosses log_losses_;
};

}  // namespace dl::supervise
