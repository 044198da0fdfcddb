// SPDX-License-Identifier: Apache-2.0
// What the policy sees: nodes, tenants and jobs at one moment. Plain data, filled by dlpolicyd from Slurm or by dlsim
// from a trace. Times are seconds on a clock that the caller chooses (`now_s` is its present time); GPUs are counted as
// whole ones. Names of nodes, tenants and types are only for messages; decisions use indexes into the
// vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/request_values.h"

namespace dl::policy {

constexpr int kAnyType = -1;  // a request that names no GPU type: charged to the type it gets
constexpr int kNobody = -1;   // no group, no job, no user
constexpr int kNoLimit = -1;

// Limits that check() enforces, so that no sum or product here overflows.
constexpr int kMostGpus = 10'000'000;  // of a node, a quota
constexpr int kMostJobGpus = 200'000'000;
constexpr int64_t kMostGpusInAll = 1'000'000'000;      // of all nodes; of all quotas
constexpr int64_t kFarthestS = int64_t{1} << 40;       // on the clock, to either side of 0
constexpr int64_t kLongestS = int64_t{1'000'000'000};  // of a time span

// Numbers of GPUs: of each type, and of any type on top of those.
struct GpuCounts {
  std::vector<int> by_type;  // a type beyond its end counts 0
  int any = 0;

  int of(int type) const;
  int total() const;
};

// A group of tenants, such as a department. A group may lie in another one.
struct Group {
  std::string name;
  GpuCounts quota;       // what the group itself owns, for any tenant in it (group_quota.h)
  int parent = kNobody;  // the group that it lies in
};

// A Slurm account. What it holds beyond its quota is borrowed from the others.
struct Tenant {
  std::string name;
  int group = kNobody;            // idle GPUs are lent within this group first, then within the one around it
  GpuCounts quota;                // what it owns: it may take this back at any time
  std::optional<GpuCounts> lend;  // most of its quota that others may hold while it is idle; absent: all of it
  int borrow_limit = kNoLimit;    // most GPUs beyond its quota
  int max_job_gpus = kNoLimit;    // most GPUs of one job
  int max_user_gpus = kNoLimit;   // most GPUs of one user, over all jobs
  double weight = 1;              // its fair share of lent GPUs is in proportion; 0: only what nobody else wants
  double recent_gpu_s = 0;        // GPU-seconds borrowed so far, weighted and decayed (fair_share.h)
};

// A node has GPUs of one type; a machine with two types counts as two nodes.
struct Node {
  std::string name;
  int type = 0;
  int gpus = 0;
  int leaf_switch = 0;
  bool usable = true;  // false: down, drained or kept as a spare; running jobs stay, nothing starts there
};

// Learners of one job on one node.
struct Part {
  int node = 0;
  int learners = 0;
  bool operator==(const Part& other) const { return node == other.node && learners == other.learners; }
};

inline int learners_of(const std::vector<Part>& parts) {
  int sum = 0;
  for (const Part& part : parts) sum += part.learners;
  return sum;
}

// What a running job is counted as. A borrowed one has at least one GPU beyond its tenant's quota, and may have some
// within it (own_part). Changing either needs no restart.
enum class Charge { kOwn, kBorrowed };

using dl::Placement;

// The fields that a decision reads of every waiting job, of which there may be thousands, come first: they share cache
// lines.
struct Job {
  int64_t id = 0;  // job_id.h
  int64_t submit_s = 0;
  int64_t limit_s = 0;  // it ends by itself after running for so long; 0: not known
  int64_t nice = 0;     // of a tenant's waiting jobs those with a lower value come first, then the oldest
  // Id of the claimant that it was asked to yield to, the first one if there are several; kNobody: none. A running job
  // has not gone yet and may be asked for more; what it gives up goes to all claims, promised ones first. A pending job
  // has yielded; the claimant comes before others that would take its place.
  int64_t yields_to = kNobody;
  int tenant = 0;
  int type = kAnyType;
  int gpus_per_learner = 1;
  int min_learners = 1;     // all of them start together or none; fewer than max: elastic
  Tier tier = Tier::kAuto;  // kGuaranteed never borrows; kBorrow never uses the quota
  Placement placement = Placement::kPack;
  bool running = false;
  // Of a pending job: an earlier decision asked victims to yield to it (Reason::kVictimsLeaving). Until it starts it
  // keeps the quota and the place that it was promised, and comes before all claims that were promised nothing.
  // With `charge` borrowed it was promised a loan (Waiting::lent): a place without quota, before all other borrowers.
  bool promised = false;
  Charge charge = Charge::kOwn;  // of a running job, too
  int max_learners = 1;
  int user = kNobody;      // index into the state's users; kNobody: not known
  int64_t restart_s = 60;  // what a pause costs besides the work since the last checkpoint: saving, waiting, loading
  // Minimum run time: not a victim before it has run for so long in this attempt. 0 for a job that came back smaller
  // after it yielded: it was protected once, and owners would else wait again for each further learner.
  int64_t min_run_s = 0;
  bool pausable = true;  // false: never a victim
  bool saves = true;     // false: if stopped it loses all its work, so it may be a victim of claims, not of balance.h
  // Nodes beside those of another job, which goes on without them (sizes/in_place.h): to stop it loses nothing, so that
  // it goes before any job shrinks or stops.
  bool companion = false;
  std::vector<Part> promised_parts;  // Waiting::parts of that decision; empty: not known

  // For a scheduler that starts jobs by itself (wanted.h); no decision depends on these.
  int64_t priority = 0;        // in that scheduler's queue, without the rank that dlpolicyd adds
  bool with_siblings = false;  // one of the waiting elements of a job array, all of which share one begin time

  // Of a running job.
  int own_part = 0;               // of a borrowed job: GPUs of it that are charged to the quota; the rest is borrowed
  int64_t start_s = 0;            // of this attempt
  int64_t checkpoint_s = 0;       // last good checkpoint; before start_s: nothing saved in this attempt
  std::vector<Part> parts;        // every node at most once, by node
  int idle_gpus = 0;              // GPUs unused for longer than the site allows, as the job itself reports
  int64_t idle_since_s = 0;       // since when they are
  bool idle = false;              // it uses none of its GPUs, and the site lends such: it is charged as borrowed
  int yields_until_learners = 0;  // of one that yields: how many learners it will keep; 0: stops

  bool elastic() const { return min_learners < max_learners; }
  int learners() const { return learners_of(parts); }
  int gpus() const { return learners() * gpus_per_learner; }
  // If it kept `gpus` of its GPUs, how many of them would be charged to its tenant's quota: the borrowed ones are given
  // up first.
  int own_of(int gpus) const { return charge == Charge::kOwn || own_part > gpus ? gpus : own_part; }
};

struct ClusterState {
  int64_t now_s = 0;
  std::vector<std::string> types;
  std::vector<double> type_weight;  // of a GPU-second, for the fair share; a type beyond its end weighs 1
  std::vector<Node> nodes;
  bool nodes_known = true;    // false: the nodes are not known, and admission judges by quotas alone
  std::vector<Group> groups;  // a group number beyond its end owns nothing and lies in no other group
  std::vector<Tenant> tenants;
  std::vector<std::string> users;  // names; may lack users on whom no limit depends
  std::vector<Job> jobs;           // pending and running
  // No job before this index runs. 0 is always right; with thousands of waiting jobs in front, the right number lets
  // loops over running jobs skip them.
  size_t first_running = 0;
  int64_t half_life_s = 7 * 86400;
  bool balance = false;    // borrowers are asked to yield to tenants that borrow less for their weight (balance.h)
  int64_t patience_s = 0;  // a job that waits longer gets free GPUs kept for it, one job at a time; 0: never
  // Limits on what stopping a job may count for, as these times are the job's own statements: a job that never saves,
  // or states a very long restart, would otherwise always have others stopped in its place.
  int64_t most_unsaved_s = 4 * 3600;  // work since the last checkpoint counts up to this
  int64_t most_restart_s = 600;       // Job::restart_s counts up to this
  int search_budget = 20'000;         // steps of the exact victim search; then the best set found so far is taken

  int type_count() const { return static_cast<int>(types.size()); }
  double weight_of_type(int type) const;
  int parent_of(int group) const { return quota_of(group) != nullptr ? groups[group].parent : kNobody; }
  const GpuCounts* quota_of(int group) const {
    return group >= 0 && group < static_cast<int>(groups.size()) ? &groups[group].quota : nullptr;
  }
  // The type of a running job's GPUs.
  int type_held(const Job& job) const { return job.parts.empty() ? kAnyType : nodes[job.parts.front().node].type; }
};

// kInvalid with one sentence if, for example, an index or a number is out of range, jobs hold more GPUs than a node
// has, or a running job has GPUs of two types, or fewer or more learners than it asked for. All other functions of this
// folder expect a state that passed.
Status check(const ClusterState& state);

// One sentence for each type of which the quotas together exceed what the nodes have, and one if the quotas of all
// types do: such guarantees cannot all be kept.
std::vector<std::string> oversubscribed(const ClusterState& state);

}  // namespace dl::policy
