// SPDX-License-Identifier: Apache-2.0
// What job_submit_dl writes down about a GPU job of a tenant, in its admin_comment, which users cannot change: all that
// dlpolicyd needs to know besides what Slurm tells. One line:
//
//     dl:1 tenant=vision tier=auto learners=2:4 gpus=2 type=a100 nodes=1:2 pausable=1 placement=pack charge=own
//
// Behind " | " stays what somebody else had written there. Pure; safe to call from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

// What the job has been asked to give up: yields=CLAIMANT@DEADLINE:LEARNERS.
struct Yield {
  int64_t claimant = 0;    // the job that it goes to, by job_id.h
  int64_t deadline_s = 0;  // since the epoch; then Slurm requeues it
  int learners = 0;        // that it keeps; 0: stops
  bool operator==(const Yield& other) const {
    return claimant == other.claimant && deadline_s == other.deadline_s && learners == other.learners;
  }
};

// What its user was told at submission about the day on which the job's lent GPUs are taken back. Kept whatever flags
// the user changes later.
enum class GiveBack {
  kUnknown,  // of a label that an earlier version wrote
  kSave,     // it saves, and goes back into the queue
  kRequeue,  // it goes back into the queue and begins anew
  kEnd,      // it is ended
};

struct JobLabel {
  std::string tenant;
  Tier tier = Tier::kAuto;
  LearnerRange learners;               // of a job without learners: as many as its GPUs divide into `gpus` each
  int gpus = 1;                        // per learner
  std::string type;                    // of the GPUs asked for, or that it is kept to; empty: any
  int min_nodes = 0;                   // as submitted; 0: not given
  int max_nodes = 0;                   // 0: not given
  bool pausable = false;               // can be asked to save and to come back
  GiveBack back = GiveBack::kUnknown;  // back=requeue or end, of a job that is not pausable
  Placement placement = Placement::kPack;
  Charge charge = Charge::kOwn;
  int own_part = 0;                 // own=N, of a borrowed job: GPUs of it that are charged to the quota
  std::optional<int64_t> begin_s;   // the user's own --begin
  std::optional<int64_t> queued_s;  // it waits in the queue as if submitted then: taken from while it was idle
  std::optional<Yield> yields;
  std::optional<int64_t> yielded;  // of a job that has gone: the job it went for, by job_id.h, while that waits
  bool shrunk = false;             // it came back smaller from yielding: no minimum run time protects it anew
  bool unowned = false;            // held, since its tenant is not declared any more
  std::string note;                // of somebody else
};

// One line of at most about 500 bytes and the note. Names are plain ones.
std::string format_label(const JobLabel& label);

// Nothing unless the text begins with "dl:1 " and every value of ours is there and readable: a job whose label is not
// is a foreign one. Keys that are not known (of a later version) are ignored; of two equal ones the text is refused.
std::optional<JobLabel> parse_label(std::string_view text);

// The text with a label in front, in place of a former one; somebody else's words are kept as the note.
std::string with_label(std::string_view admin_comment, JobLabel label);

GiveBack gives_back(const JobLabel& label);

const char* charge_name(Charge charge);  // own, borrowed

}  // namespace dl::policy
