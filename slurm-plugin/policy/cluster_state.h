// SPDX-License-Identifier: Apache-2.0
// What the policy sees: nodes, tenants and jobs at one moment. Plain data, filled by dlpolicyd from Slurm or by dlsim
// from a trace; nothing here asks anybody anything. Times are seconds on one clock of the caller's (`now_s` says where
// it is); GPUs are whole ones. Names of jobs, nodes, tenants and types are for messages; decisions use indexes into the
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

// What check() lets pass, so that no sum or product here overflows.
constexpr int kMostGpus = 10'000'000;  // of a node, a quota
constexpr int kMostJobGpus = 200'000'000;
constexpr int64_t kMostGpusInAll = 1'000'000'000;      // of all nodes
constexpr int64_t kFarthestS = int64_t{1} << 40;       // on the clock, to either side of 0
constexpr int64_t kLongestS = int64_t{1'000'000'000};  // of a time span

// Numbers of GPUs: of each type, and of any type on top of those.
struct GpuCounts {
  std::vector<int> by_type;  // a type beyond its end counts 0
  int any = 0;

  int of(int type) const;
  int total() const;
};

// Tenants with the same number, or in groups that lie in one another: departments of one house.
struct Group {
  std::string name;
  GpuCounts quota;       // its own, for any tenant below it (group_quota.h)
  int parent = kNobody;  // the group that it lies in
};

// A Slurm account. What it holds beyond its quota is borrowed from the others.
struct Tenant {
  std::string name;
  int group = kNobody;            // tenants with the same number lend to one another first, then their groups do
  GpuCounts quota;                // its own at any time
  std::optional<GpuCounts> lend;  // most of its quota that others may hold while it is idle; absent: all of it
  int borrow_limit = kNoLimit;    // most GPUs beyond its quota
  int max_job_gpus = kNoLimit;    // most GPUs of one job
  int max_user_gpus = kNoLimit;   // most GPUs of one user, over all jobs
  double weight = 1;              // of its share of what is lent; 0: only what nobody else wants
  double recent_gpu_s = 0;        // decayed use so far, by fair_share.h
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

// What a running job is counted as. A borrowed one has at least one GPU beyond its tenant's quota, and may have some
// within it (own_part). Changing either needs no restart.
enum class Charge { kOwn, kBorrowed };

using dl::Placement;

struct Job {
  int64_t id = 0;  // job_id.h
  int tenant = 0;
  int user = kNobody;       // index into the state's users; kNobody: not known
  Tier tier = Tier::kAuto;  // kGuaranteed never borrows; kBorrow never uses the quota
  int type = kAnyType;
  int gpus_per_learner = 1;
  int min_learners = 1;  // all of them start together or none; fewer than max: elastic
  int max_learners = 1;
  Placement placement = Placement::kPack;
  int64_t submit_s = 0;
  int64_t nice = 0;        // among the waiting jobs of its tenant those with less come first, then the oldest
  int64_t restart_s = 60;  // what a pause costs besides the work since the last checkpoint: saving, waiting, loading
  // Not taken from before it has run for so long in this attempt. Who observes sets 0 for a job that goes on after a
  // shrink: it has had its time, and owners would wait once for each of its learners.
  int64_t min_run_s = 0;
  int64_t limit_s = 0;   // it ends by itself after running for so long; 0: not known
  bool pausable = true;  // false: never a victim
  bool saves = true;     // false: taken from, it loses all that it did, so that only a claim is worth it, no fair share

  // Of a pending job: the last decision let it wait for victims that leave (Reason::kVictimsLeaving). It keeps the
  // quota and the place that it was promised until it starts, and comes before all claims that were promised nothing.
  // With `charge` borrowed it was promised a loan (Waiting::lent): a place alone, before all others that are lent to.
  bool promised = false;
  std::vector<Part> promised_parts;  // Waiting::parts of that decision; empty: whoever observes does not know

  // For what a scheduler of its own does with it (wanted.h); no decision depends on these.
  int64_t priority = 0;        // in that scheduler's queue, without a rank of ours
  bool with_siblings = false;  // an element of a job array that has not begun: all of them have one begin time

  // Of a running job.
  bool running = false;
  Charge charge = Charge::kOwn;
  int own_part = 0;          // of a borrowed job: GPUs of it that are charged to its tenant's quota; the rest is lent
  int64_t start_s = 0;       // of this attempt
  int64_t checkpoint_s = 0;  // last good checkpoint; before start_s: nothing saved in this attempt
  std::vector<Part> parts;   // every node at most once, by node
  int idle_gpus = 0;         // that it has not used for longer than the site allows, by its own word...
  int64_t idle_since_s = 0;  // ...since then
  bool idle = false;         // none of its GPUs is used, and the site lends such: it does without its quota
  // Id of the claimant it has been asked to yield to, the first of them if there are several. A running job has not
  // gone yet, a pending one has: so the claimant comes before others that would take its place. What a running one
  // gives up is for all claims, those first that are promised something; it may be asked for more before it has gone.
  int64_t yields_to = kNobody;
  int yields_until_learners = 0;  // how many learners it will keep; 0: stops

  bool elastic() const { return min_learners < max_learners; }
  int learners() const;
  int gpus() const { return learners() * gpus_per_learner; }
  // Of so many GPUs that it keeps, those on its tenant's quota: what it gives up, it gives up of the borrowed ones
  // first.
  int own_of(int gpus) const { return charge == Charge::kOwn || own_part > gpus ? gpus : own_part; }
};

struct ClusterState {
  int64_t now_s = 0;
  std::vector<std::string> types;
  std::vector<double> type_weight;  // of a GPU-second, in the fair share; a type beyond its end weighs 1
  std::vector<Node> nodes;
  bool nodes_known = true;    // false: nobody said which nodes there are, and admission judges by quotas alone
  std::vector<Group> groups;  // one beyond its end owns nothing and lies in no other
  std::vector<Tenant> tenants;
  std::vector<std::string> users;  // names, as far as anything depends on them
  std::vector<Job> jobs;           // pending and running
  // None before this one runs. 0 is always right; who keeps those that wait in front spares a decision of thousands of
  // them that many looks.
  size_t first_running = 0;
  int64_t half_life_s = 7 * 86400;
  bool balance = false;    // borrowers make place for a tenant that has less of what is lent (balance.h)
  int64_t patience_s = 0;  // a job that waits longer gets free GPUs kept for it, one job at a time; 0: never
  // What a job's own word is worth in GPU-seconds: one that never saves, or says that its restart takes ever so long,
  // would have its rivals stopped in its stead.
  int64_t most_unsaved_s = 4 * 3600;  // work since the last checkpoint counts up to this
  int64_t most_restart_s = 600;       // and what a pause costs besides up to this
  int search_budget = 20'000;         // steps of the exact victim search in one decision; then its best find is taken

  int type_count() const { return static_cast<int>(types.size()); }
  double weight_of_type(int type) const;
  int parent_of(int group) const { return quota_of(group) != nullptr ? groups[group].parent : kNobody; }
  const GpuCounts* quota_of(int group) const {
    return group >= 0 && group < static_cast<int>(groups.size()) ? &groups[group].quota : nullptr;
  }
  // The type of a running job's GPUs.
  int type_held(const Job& job) const { return job.parts.empty() ? kAnyType : nodes[job.parts.front().node].type; }
};

// kInvalid with one sentence if an index is out of range, a number is negative, a node is given out twice over, a
// running job has GPUs of two types or fewer or more learners than it asked for. All else here expects a state that
// passed.
Status check(const ClusterState& state);

// Quotas of one type, or of all, that exceed what the nodes have: guarantees that cannot all be kept. One sentence
// each.
std::vector<std::string> oversubscribed(const ClusterState& state);

}  // namespace dl::policy
