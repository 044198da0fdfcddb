// SPDX-License-Identifier: Apache-2.0
// The label of a tenant's GPU job: what dlpolicyd needs to know about it besides what Slurm tells. job_submit_dl writes
// it into the job's admin_comment, which users cannot change. One line:
//
//     dl:1 tenant=vision tier=auto learners=2:4 gpus=2 type=a100 nodes=1:2 batch=64:512 pausable=1 placement=pack
//     charge=own
//
// Behind " | " the text is kept that somebody else had written there. Pure; safe to call from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/contract/batch_range.h"
#include "slurm-plugin/policy/cluster_state.h"

namespace dl::policy {

// What the job has been asked to give up: yields=CLAIMANT@DEADLINE:LEARNERS. If it is the claimant itself, it is to
// start again at another size.
struct Yield {
  int64_t claimant = 0;    // the job that gets the GPUs, by job_id.h
  int64_t deadline_s = 0;  // since the epoch; a job that has not yielded then is requeued
  int learners = 0;        // that it keeps; 0: stops
  bool operator==(const Yield& other) const {
    return claimant == other.claimant && deadline_s == other.deadline_s && learners == other.learners;
  }
};

// The size that the optimiser chose for an elastic job (sizes/): size=LEARNERS@QUEUED. While it waits it starts with no
// more learners, and its place in the queue is as if it were submitted at QUEUED, since Slurm counts a requeue as a new
// submission.
struct ChosenSize {
  int learners = 0;
  int64_t queued_s = 0;  // since the epoch
  bool operator==(const ChosenSize& other) const { return learners == other.learners && queued_s == other.queued_s; }
};

// Nodes that the job was offered beside those that it has (sizes/in_place.h): grow=NODES@OFFERED. Its dlrun submits a
// companion for as many, if it hears of it within a minute. The word stays, since it says when the size last changed.
struct Offer {
  int nodes = 0;
  int64_t offered_s = 0;  // since the epoch
  bool operator==(const Offer& other) const { return nodes == other.nodes && offered_s == other.offered_s; }
};

// A waiting job that was not admitted, and is ended (drop.h): dropped=GPUS:ROOM@TIME.
struct Dropped {
  int gpus = 0;      // that it needs at its smallest size
  int64_t room = 0;  // GPUs that the jobs before it leave, at their smallest sizes
  int64_t at_s = 0;  // since the epoch
  bool operator==(const Dropped& other) const { return gpus == other.gpus && room == other.room && at_s == other.at_s; }
};

// What happens to the job when its lent GPUs are taken back, as its user was told at submission. It stays the same
// whatever flags the user changes later.
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
  std::optional<BatchRange> batch;     // --dl-batch
  std::string type;                    // GPU type that was asked for or that it was restricted to; empty: any
  int min_nodes = 0;                   // as submitted; 0: not given
  int max_nodes = 0;                   // 0: not given
  bool pausable = false;               // can be asked to save and to come back
  GiveBack back = GiveBack::kUnknown;  // back=requeue or end, of a job that is not pausable
  Placement placement = Placement::kPack;
  Charge charge = Charge::kOwn;
  int own_part = 0;                 // own=N, of a borrowed job: GPUs of it that are charged to the quota
  std::optional<int64_t> begin_s;   // the user's own --begin
  std::optional<int64_t> queued_s;  // its place in the queue is as if submitted then: it yielded while it was idle
  std::optional<Yield> yields;
  std::optional<int64_t> yielded;  // of a job that has yielded: to which one, by job_id.h, as long as that one waits
  std::optional<ChosenSize> size;
  std::optional<Offer> grow;
  bool nodes_set = false;  // an elastic job: dlpolicyd has set another number of nodes (NodeRange)
  bool shrunk = false;     // it came back smaller from yielding: no minimum run time protects it anew
  std::optional<Dropped> dropped;
  bool unowned = false;  // held, since its tenant is not declared any more
  std::string note;      // of somebody else
};

// One line of at most about 500 bytes and the note. Names are plain ones.
std::string format_label(const JobLabel& label);

// Nothing unless the text begins with "dl:1 " and has all required keys, each with a readable value: a job without such
// a label is a foreign one. Unknown keys (of a later version) are ignored; a known key given twice is refused.
std::optional<JobLabel> parse_label(std::string_view text);

// The text with a label in front, in place of a former one; somebody else's words are kept as the note.
std::string with_label(std::string_view admin_comment, JobLabel label);

// kSave for a pausable job, else the label's `back`.
GiveBack gives_back(const JobLabel& label);

// "it needs 4 GPUs at its smallest size, and ..."
std::string dropped_text(const Dropped& dropped);

const char* charge_name(Charge charge);  // own, borrowed

}  // namespace dl::policy
