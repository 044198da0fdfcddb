// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/observe/cluster_view.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/contract/companion_hint.h"
#include "common/contract/idle_hint.h"
#include "common/site/site_tenants.h"
#include "slurm-plugin/observe/gres.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/policy/wanted.h"

namespace dl::observe {
namespace {

using policy::ClusterState;
using policy::Part;

constexpr size_t kMaxNodesOfJob = 100000;
constexpr int64_t kMaxElement = 1'000'000'000;
// The claimant of a job that ends without a claim: no job has this id.
constexpr int64_t kForWhoever = 0;

// The first elements of "0-4,7,8-20:4%2": at most `most`. It stops at a part that cannot be parsed.
std::vector<int64_t> first_elements(std::string_view text, size_t most) {
  std::vector<int64_t> elements;
  for (const std::string& range : split(text.substr(0, text.find('%')), ',')) {
    const std::string_view item = range;
    const size_t dash = item.find('-');
    const size_t colon = item.find(':');
    const auto first = parse_int(item.substr(0, dash), 0, kMaxElement);
    if (!first) break;
    const auto last = dash == std::string_view::npos
                          ? first
                          : parse_int(item.substr(dash + 1, colon - dash - 1), *first, kMaxElement);
    const auto step =
        colon == std::string_view::npos ? Result<int64_t>(1) : parse_int(item.substr(colon + 1), 1, kMaxElement);
    if (!last || !step) break;
    for (int64_t i = *first; i <= *last && elements.size() < most; i += *step) elements.push_back(i);
  }
  return elements;
}

// How many elements of a job array may run at once according to its user: "%2". At most kElementsSeen if he does not
// say.
size_t most_at_once(std::string_view text) {
  const size_t mark = text.find('%');
  if (mark == std::string_view::npos) return kElementsSeen;
  const auto most = parse_int(text.substr(mark + 1), 1, kMaxElement);
  return most ? static_cast<size_t>(*most) : kElementsSeen;
}

class Viewer {
 public:
  Viewer(const ClusterState& site, const Records& records, const ViewOptions& options)
      : records_(records), options_(options) {
    view_.state = site;
    view_.state.now_s = records.now_s;
    view_.state.nodes.clear();
    view_.state.nodes_known = true;
    view_.state.jobs.clear();
  }

  ClusterView view() {
    read_switches();
    for (const NodeRecord& node : records_.nodes) add_node(node);
    used_.resize(view_.state.nodes.size());
    for (const JobRecord& record : records_.jobs)
      if (record.array != 0 && record.elements.empty() && record.phase != JobPhase::kOver)
        ++begun_elements_[record.array];
    for (size_t i = 0; i < records_.jobs.size(); ++i) add_job(i);
    settle_yields();
    settle_companions();
    for (size_t i = 0; i < used_.size(); ++i) {
      // GPUs held by jobs of no tenant do not count. If Slurm's numbers contradict one another, the number that our
      // jobs hold is taken.
      policy::Node& node = view_.state.nodes[i];
      node.gpus = std::max(node.gpus - used_[i].foreign, used_[i].ours);
    }
    return std::move(view_);
  }

 private:
  struct Used {
    int ours = 0;
    int foreign = 0;
  };

  // Numbers the switches from 1; nodes on no switch share the number 0. A node on several switches belongs to the
  // first.
  void read_switches() {
    int number = 0;
    for (const SwitchRecord& leaf : records_.leaf_switches) {
      ++number;
      const auto names = expand_hostlist(leaf.nodes, kMaxNodesOfJob);
      if (!names) continue;
      for (const std::string& name : *names) switch_of_name_.emplace(name, number);
    }
  }

  int add_type(const std::string& name) {
    if (const auto known = policy::type_index(view_.state, name)) return *known;
    view_.state.types.push_back(name);
    return view_.state.type_count() - 1;
  }

  void add_node(const NodeRecord& record) {
    for (const GpuCount& gpus : parse_gpus(record.gres)) {
      policy::Node node;
      node.name = record.name;
      node.type = add_type(gpus.type.empty() ? std::string(kPlainGpuType) : gpus.type);
      node.gpus = gpus.count;
      node.usable = record.usable;
      const auto leaf = switch_of_name_.find(record.name);
      node.leaf_switch = leaf == switch_of_name_.end() ? 0 : leaf->second;
      nodes_of_name_[record.name].push_back(static_cast<int>(view_.state.nodes.size()));
      view_.state.nodes.push_back(std::move(node));
    }
  }

  // The GPUs that the job holds, by index of our nodes.
  std::map<int, int> held(const JobRecord& record) {
    std::map<int, int> gpus;
    if (record.nodes.empty()) return gpus;
    const auto names = expand_hostlist(record.nodes, kMaxNodesOfJob);
    if (!names) return gpus;
    for (size_t i = 0; i < names->size() && i < record.gres_by_node.size(); ++i) {
      const auto nodes = nodes_of_name_.find((*names)[i]);
      if (nodes == nodes_of_name_.end()) continue;
      for (const GpuCount& count : parse_gpus(record.gres_by_node[i])) {
        const int node = of_type(nodes->second, count.type);
        if (node >= 0) gpus[node] += std::min(count.count, view_.state.nodes[node].gpus);
      }
    }
    return gpus;
  }
  int of_type(const std::vector<int>& nodes, const std::string& type) const {
    for (const int node : nodes)
      if (type.empty() || view_.state.types[view_.state.nodes[node].type] == type) return node;
    return -1;
  }

  void add_foreign(const std::map<int, int>& gpus) {
    for (const auto& [node, count] : gpus) {
      used_[node].foreign += count;
      view_.foreign_gpus += count;
    }
  }

  int user_index(const std::string& name) {
    if (name.empty()) return policy::kNobody;
    const auto [known, is_new] = users_.emplace(name, static_cast<int>(view_.state.users.size()));
    if (is_new) view_.state.users.push_back(name);
    return known->second;
  }

  // The job as its label describes it, checked against tenants and types. None if these are unknown.
  std::optional<policy::Job> job_of(const JobRecord& record, const policy::JobLabel& label) {
    policy::Job job;
    job.id = id_of(record);
    const auto tenant = policy::tenant_index(view_.state, label.tenant);
    const auto type = policy::type_index(view_.state, label.type);
    if (!tenant || !type) return std::nullopt;
    job.tenant = *tenant;
    if (view_.state.tenants[*tenant].max_user_gpus != policy::kNoLimit) job.user = user_index(record.user);
    job.type = *type;
    job.tier = label.tier;
    job.gpus_per_learner = label.gpus;
    job.min_learners = label.learners.min;
    job.max_learners = label.learners.max;
    job.placement = label.placement;
    // Slurm counts a requeue as a new submission. A job that was to start again at another size keeps its place.
    const int64_t submit_s = label.size ? std::min(record.submit_s, label.size->queued_s) : record.submit_s;
    job.submit_s = std::max(submit_s, label.queued_s.value_or(0));
    const bool waits = record.phase == JobPhase::kPending;
    if (label.size && options_.chosen_sizes && waits)
      job.max_learners = std::clamp(label.size->learners, job.min_learners, job.max_learners);
    job.min_run_s = label.shrunk ? 0 : options_.min_run_s;
    // What the user was told at submission counts, not the flags that he may have changed since. Every borrowed job
    // gives its GPUs back; a job within the quota that cannot save is not stopped for a guaranteed job of its own
    // tenant.
    job.pausable = label.pausable || label.charge == policy::Charge::kBorrowed;
    job.saves = label.pausable;
    job.limit_s = std::clamp<int64_t>(record.limit_s, 0, policy::kLongestS);
    job.charge = label.charge;
    job.own_part = label.own_part;
    job.nice = record.nice;
    // Users cannot set this rank. From it a restarted dlpolicyd knows which job was promised a place.
    job.promised = waits && record.site_factor == policy::kPromisedRank;
    if (job.promised) have_chosen_size(label, &job);
    // Slurm adds the site factor at once. If it has not done so yet, the priority does not contain it.
    job.priority = record.priority < record.site_factor ? record.priority : record.priority - record.site_factor;
    // Slurm's least priority is 1, which it does not add: without weights that is what a job without a site factor has.
    if (record.priority > 0) job.priority = std::max<int64_t>(1, job.priority);
    job.with_siblings = !record.elements.empty();
    return job;
  }

  // As long as a job that went to start again is promised its place, it starts with the chosen number of learners and
  // no other: as an elastic one it would start with what its quota covers, and be resized again and again. If there is
  // no room for that, it is promised nothing any more, and may have fewer.
  void have_chosen_size(const policy::JobLabel& label, policy::Job* job) const {
    if (label.size && options_.chosen_sizes) job->min_learners = job->max_learners;
  }

  // Sets how many learners run on each node. False if the GPUs that Slurm reports are no whole number of learners.
  bool set_parts(const std::map<int, int>& gpus, policy::Job* job) const {
    if (gpus.empty()) return false;
    const int type = view_.state.nodes[gpus.begin()->first].type;
    for (const auto& [node, count] : gpus) {
      if (count % job->gpus_per_learner != 0 || view_.state.nodes[node].type != type) return false;
      if (used_[node].ours + used_[node].foreign + count > view_.state.nodes[node].gpus) return false;
      job->parts.push_back(Part{node, count / job->gpus_per_learner});
    }
    // A job may run at another size than its range: it was changed since, or got whole nodes.
    job->min_learners = std::min(job->min_learners, job->learners());
    job->max_learners = std::max(job->max_learners, job->learners());
    return true;
  }

  // The user may have forged this hint, but it can only reduce what his own GPUs count for. A hint from an earlier
  // attempt or from the future is ignored.
  void set_idle(const JobRecord& record, policy::Job* job) const {
    const IdleHint hint = idle_hint_in(record.comment);
    if (hint.gpus == 0 || hint.since_s < job->start_s || hint.since_s > records_.now_s) return;
    job->idle_gpus = std::min(hint.gpus, job->gpus());
    job->idle_since_s = hint.since_s;
    job->idle = options_.lend_idle && job->idle_gpus == job->gpus();
  }

  void add_job(size_t index) {
    const JobRecord& record = records_.jobs[index];
    if (record.phase == JobPhase::kOver) return;
    SeenJob seen;
    seen.record = index;
    seen.id = id_of(record);
    const auto label = policy::parse_label(record.admin_comment);
    std::optional<policy::Job> job;
    if (label) {
      seen.label = *label;
      job = job_of(record, *label);
    }
    seen.dlrun = record.comment.find("dl:") != std::string::npos;
    seen.completing = record.phase == JobPhase::kCompleting;
    const bool uncharged = label && !policy::tenant_index(view_.state, label->tenant);
    if (record.phase == JobPhase::kPending) {
      if (job) add_waiting(record, seen, *job);
      if (uncharged) view_.uncharged.push_back({index, *label, 0});
      return;
    }
    const std::map<int, int> gpus = held(record);
    if (uncharged) {
      int all = 0;
      for (const auto& [node, count] : gpus) all += count;
      view_.uncharged.push_back({index, *label, all});
    }
    if (!job || !set_parts(gpus, &*job)) return add_foreign(gpus);
    if (!comes_back(seen.label, record)) job->min_learners = job->max_learners = job->learners();
    job->running = true;
    job->start_s = std::min(record.start_s, records_.now_s);
    job->checkpoint_s = job->start_s;
    set_idle(record, &*job);
    for (const Part& part : job->parts) used_[part.node].ours += part.learners * job->gpus_per_learner;
    push(std::move(seen), std::move(*job));
  }

  void add_waiting(const JobRecord& record, const SeenJob& seen, const policy::Job& job) {
    std::vector<int64_t> elements;
    if (!record.elements.empty()) {
      const size_t most = most_at_once(record.elements);
      const size_t begun = begun_elements_[record.array];
      // No waiting element can start now, even if another job gave its GPUs back.
      if (record.elements.find('%') != std::string::npos && begun >= most) {
        view_.aside.push_back(seen);
        return;
      }
      elements = first_elements(record.elements, std::min(kElementsSeen, most - std::min(most, begun)));
    }
    if (elements.empty()) return add_pending(record, seen, job);
    for (const int64_t element : elements) {
      SeenJob one = seen;
      policy::Job its = job;
      one.id = its.id = policy::element_id(record.array, element);
      // All elements of the record share one rank, but the promise is for one element.
      its.promised = job.promised && element == elements.front();
      add_pending(record, std::move(one), std::move(its));
    }
  }

  void add_pending(const JobRecord& record, SeenJob seen, policy::Job job) {
    const int64_t ahead = record.begin_s - records_.now_s;
    const bool users = seen.label.begin_s && *seen.label.begin_s == record.begin_s;
    const bool may_be_gated = seen.label.charge == policy::Charge::kBorrowed || job.user != policy::kNobody;
    seen.gated = may_be_gated && ahead > 0 && !users && ahead <= options_.gate_s + kSoonS;
    const bool later = ahead > kSoonS && !seen.gated && !seen.label.yields;
    if (record.wait == Wait::kOther || later || options_.passed_over.count(seen.id) != 0) {
      view_.aside.push_back(std::move(seen));
      return;
    }
    push(std::move(seen), std::move(job));
  }

  void push(SeenJob seen, policy::Job job) {
    view_.jobs.push_back(std::move(seen));
    view_.state.jobs.push_back(std::move(job));
  }

  void settle_yields() {
    std::set<int64_t> waiting;
    for (const policy::Job& job : view_.state.jobs)
      if (!job.running) waiting.insert(job.id);
    for (size_t i = 0; i < view_.jobs.size(); ++i) {
      policy::Job& job = view_.state.jobs[i];
      if (!job.running) {
        const policy::JobLabel& its = view_.jobs[i].label;
        const int64_t went_for = its.yields ? its.yields->claimant : its.yielded.value_or(policy::kNobody);
        if (went_for == job.id) {
          job.promised = true;  // it went to start again at another size: what it gave up is kept for it
          have_chosen_size(its, &job);
        } else if (waiting.count(went_for) != 0) {
          job.yields_to = went_for;
        }
        continue;
      }
      const auto& yields = view_.jobs[i].label.yields;
      if (view_.jobs[i].completing) {
        job.yields_to = yields ? yields->claimant : kForWhoever;
        continue;
      }
      if (!yields || waiting.count(yields->claimant) == 0) continue;
      if (job.start_s > yields->deadline_s - options_.grace_s) continue;  // an earlier attempt was asked to yield
      if (yields->learners < 0 || yields->learners >= job.learners()) continue;
      job.yields_to = yields->claimant;
      job.yields_until_learners = yields->learners;
    }
  }

  // A companion of a running job of the same user, in the borrow tier, goes before others: that job goes on without it.
  void settle_companions() {
    std::map<size_t, int64_t> parents;  // by record
    for (size_t i = 0; i < records_.jobs.size(); ++i)
      if (const auto id = policy::parse_job_name(companion_hint_in(records_.jobs[i].comment));
          id && records_.jobs[i].phase != JobPhase::kOver)
        parents[i] = *id;
    if (parents.empty()) return;  // as on most sites: nothing is to be looked up
    std::map<size_t, policy::Job*> by_record;
    std::map<int64_t, SeenJob*> running;
    for (size_t i = 0; i < view_.jobs.size(); ++i) {
      by_record[view_.jobs[i].record] = &view_.state.jobs[i];
      if (view_.state.jobs[i].running) running[view_.jobs[i].id] = &view_.jobs[i];
    }
    for (const auto& [record, id] : parents) {
      const auto parent = running.find(id);
      if (parent == running.end() || parent->second->record == record) continue;
      if (records_.jobs[parent->second->record].user != records_.jobs[record].user) continue;
      parent->second->companions.push_back(record);
      const auto its = by_record.find(record);
      if (its == by_record.end() || its->second->tier != Tier::kBorrow) continue;
      its->second->companion = true;
      its->second->min_run_s = 0;
    }
  }

  const Records& records_;
  const ViewOptions& options_;
  ClusterView view_;
  std::vector<Used> used_;
  std::map<std::string, std::vector<int>> nodes_of_name_;
  std::map<std::string, int> switch_of_name_;
  std::map<std::string, int> users_;          // indexes into state.users, by name
  std::map<int64_t, size_t> begun_elements_;  // number of elements that have a record of their own, by array
};

}  // namespace

bool comes_back(const policy::JobLabel& label, const JobRecord& record) {
  const policy::GiveBack back = policy::gives_back(label);
  return back == policy::GiveBack::kUnknown ? record.requeueable : back != policy::GiveBack::kEnd;
}

int64_t id_of(const JobRecord& record) {
  return record.element >= 0 ? policy::element_id(record.array, record.element) : record.id;
}

ClusterView view_cluster(const ClusterState& site, const Records& records, const ViewOptions& options) {
  return Viewer(site, records, options).view();
}

}  // namespace dl::observe
