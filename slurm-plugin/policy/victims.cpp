// SPDX-License-Identifier: Apache-2.0
// Covering a gang's nodes at the least loss is as hard as a knapsack. A good set is found quickly (two ways, each then
// freed of what it does not need); a search that tries sets in a fixed order improves it, and proves it best if it ends
// within its budget of steps.
#include "slurm-plugin/policy/victims.h"

#include <algorithm>
#include <set>
#include <utility>

#include "slurm-plugin/policy/gangs_room.h"

namespace dl::policy {
namespace {

// One thing that can be done to a candidate.
struct Option {
  Loss loss;
  int learners_left = 0;
  int most_slots = 0;  // it cannot add more than this
  size_t first = 0;    // of all that is freed, what this frees
  size_t last = 0;
};

// Thousands of searches make thousands of these, so what they can do lies in lists that all of them share.
struct Candidate {
  int job = 0;
  int options = 0;   // how many ways it has to give GPUs up; to give up none is not counted
  size_t first = 0;  // of all options, its own, cheapest first
};

// What a candidate's place in the order of the search follows from.
struct Rank {
  int64_t lost;  // if it stops
  int slots;
  size_t candidate;
};

// `has`: the learners that the job has, or will have by what it was asked.
Option option_of(const ClusterState& state, const FreeGpus& free, const Job& job, int has, int learners_left, int size,
                 std::vector<Freed>* freed) {
  Option option;
  option.first = freed->size();
  option.learners_left = learners_left;
  const bool asked = has < job.learners();
  // This is done for each candidate of thousands of searches, so a job that still holds all its parts is not copied.
  const std::vector<Part> fewer = asked ? parts_after_shrink(job.parts, has) : std::vector<Part>{};
  const std::vector<Part>& held = asked ? fewer : job.parts;
  const std::vector<Part> kept = parts_after_shrink(held, learners_left);
  for (const Part& part : held) {
    int left = 0;
    for (const Part& k : kept) {
      if (k.node == part.node) left = k.learners;
    }
    const int gpus = (part.learners - left) * job.gpus_per_learner;
    if (gpus == 0 || !free.node(part.node).usable) continue;
    freed->push_back(Freed{part.node, gpus});
    option.most_slots += (gpus + size - 1) / size;
  }
  option.last = freed->size();
  option.loss.count = asked ? 0 : 1;
  const int64_t lost = lost_if_paused(state, job);
  if (learners_left == 0) {
    option.loss.stopped_gpu_s = lost;
  } else {
    option.loss.shrunk_gpu_s = asked ? 0 : lost;
    option.loss.shrunk_gpus = (has - learners_left) * job.gpus_per_learner;
  }
  return option;
}

class Search {
 public:
  Search(const ClusterState& state, const FreeGpus& free, int type, const std::vector<Need>& needs,
         const std::vector<int>& jobs, int* budget, int* packing_steps, bool may_shrink, const SoFar* so_far)
      : room_(free, type, needs, packing_steps), budget_(*budget) {
    if (room_.enough()) return;  // no victim is needed
    const int size = room_.places().back().size;
    candidates_.reserve(jobs.size());
    options_.reserve(jobs.size());
    freed_.reserve(jobs.size());
    for (const int index : jobs) {
      const int asked = so_far ? so_far->left[index] : -1;
      if (asked == 0) continue;
      const Job& job = state.jobs[index];
      if (state.type_held(job) != type) continue;
      const int has = so_far ? asked : job.learners();
      if (has == 0) continue;
      Candidate candidate;
      candidate.job = index;
      candidate.first = options_.size();
      const int own = so_far && may_shrink ? so_far->own[index] : 0;
      const int keeps = own / job.gpus_per_learner;
      if (may_shrink) {
        for (int left = has - 1; left >= std::max(job.min_learners, keeps); --left)
          options_.push_back(option_of(state, free, job, has, left, size, &freed_));
      }
      if (keeps < job.min_learners) {
        options_.push_back(option_of(state, free, job, has, 0, size, &freed_));
        options_.back().loss.own_gpus = own;
      }
      candidate.options = static_cast<int>(options_.size() - candidate.first);
      if (candidate.options == 0) continue;
      if (options_.back().first != options_.back().last) candidates_.push_back(candidate);
    }
    number_nodes(free);
    sort(state);
  }

  // `known`: a set that is enough, if there is one already.
  std::optional<VictimSet> run(const std::vector<Victim>& known = {}) {
    chosen_.assign(candidates_.size(), -1);
    if (room_.enough()) return answer();
    if (!seed_by_cost()) return std::nullopt;
    seed_by_node();
    if (!known.empty()) seed_by(known);
    prepare_bounds();
    std::fill(chosen_.begin(), chosen_.end(), -1);
    descend(0, Loss{});
    const std::vector<int> found = best_;
    for (size_t i = 0; i < found.size(); ++i) choose(i, found[i]);
    // A search that was cut short may have stopped at a set with something to spare.
    settle();
    chosen_ = best_;
    return answer();
  }

 private:
  const Option& option(const Candidate& candidate, int index) const {
    return options_[candidate.first + static_cast<size_t>(index)];
  }
  // What frees most.
  const Option& most(const Candidate& candidate) const { return option(candidate, candidate.options - 1); }
  struct Range {
    const Freed* first;
    const Freed* last;
    const Freed* begin() const { return first; }
    const Freed* end() const { return last; }
  };
  Range freed_by(const Option& what) const { return {freed_.data() + what.first, freed_.data() + what.last}; }
  Range most_freed(size_t candidate) const { return freed_by(most(candidates_[candidate])); }

  // What frees much for little first; of equals the youngest, however the caller lists them.
  void sort(const ClusterState& state) {
    std::vector<Rank> ranks;
    ranks.reserve(candidates_.size());
    for (const Candidate& candidate : candidates_)
      ranks.push_back(Rank{most(candidate).loss.stopped_gpu_s, most(candidate).most_slots, ranks.size()});
    std::stable_sort(ranks.begin(), ranks.end(), [&](const Rank& a, const Rank& b) {
      const double of_a = static_cast<double>(a.lost) * b.slots;
      const double of_b = static_cast<double>(b.lost) * a.slots;
      if (of_a != of_b) return of_a < of_b;
      const Job& x = state.jobs[candidates_[a.candidate].job];
      const Job& y = state.jobs[candidates_[b.candidate].job];
      return x.start_s != y.start_s ? x.start_s > y.start_s : x.id > y.id;
    });
    std::vector<Candidate> sorted;
    sorted.reserve(ranks.size());
    for (const Rank& rank : ranks) sorted.push_back(candidates_[rank.candidate]);
    candidates_ = std::move(sorted);
  }

  // Thousands of searches look at a few jobs each: what a search costs must not depend on how many nodes there are.
  void number_nodes(const FreeGpus& free) {
    std::vector<int> nodes;
    nodes.reserve(freed_.size());
    for (const Candidate& candidate : candidates_)
      for (const Freed& freed : freed_by(most(candidate))) nodes.push_back(freed.node);
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    nodes_ = nodes.size();
    room_.look_at(free, nodes);
    // Only nodes of candidates are looked at, so from here on a node is its place among those.
    for (Freed& freed : freed_)
      freed.node = static_cast<int>(std::lower_bound(nodes.begin(), nodes.end(), freed.node) - nodes.begin());
  }

  VictimSet answer() const {
    VictimSet set;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i] < 0) continue;
      const Option& what = option(candidates_[i], chosen_[i]);
      set.victims.push_back(
          Victim{candidates_[i].job, what.learners_left, what.loss.stopped_gpu_s + what.loss.shrunk_gpu_s});
      set.stopped_gpu_s += what.loss.stopped_gpu_s;
      set.shrunk_gpu_s += what.loss.shrunk_gpu_s;
      set.shrunk_gpus += what.loss.shrunk_gpus;
      set.own_gpus += what.loss.own_gpus;
    }
    std::sort(set.victims.begin(), set.victims.end(), [](const Victim& a, const Victim& b) { return a.job < b.job; });
    set.exact = set.victims.empty() || (budget_ > 0 && room_.exact());
    return set;
  }

  Loss loss_of(const std::vector<int>& chosen) const {
    Loss loss;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i] >= 0) loss = loss + option(candidates_[i], chosen[i]).loss;
    }
    return loss;
  }

  void apply(size_t candidate, int index, int sign) {
    const Range freed = freed_by(option(candidates_[candidate], index));
    applied_.assign(freed.first, freed.last);
    room_.apply(applied_, sign);
  }

  void choose(size_t candidate, int option) {
    if (chosen_[candidate] >= 0) apply(candidate, chosen_[candidate], -1);
    chosen_[candidate] = option;
    if (option >= 0) apply(candidate, option, +1);
  }

  // Takes what is chosen back as far as the gang still fits, the greatest loss first, of equals the oldest; then
  // remembers it if it is best.
  void settle() {
    std::vector<size_t> order;
    for (size_t i = chosen_.size(); i-- > 0;) {
      if (chosen_[i] >= 0) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return option(candidates_[b], chosen_[b]).loss < option(candidates_[a], chosen_[a]).loss;
    });
    for (const size_t i : order) {
      const int had = chosen_[i];
      for (int lesser = -1; lesser < had; ++lesser) {
        choose(i, lesser);
        if (room_.enough()) break;
        choose(i, had);
      }
    }
    const Loss loss = loss_of(chosen_);
    if (best_.empty() || loss < best_loss_) {
      best_ = chosen_;
      best_loss_ = loss;
    }
    for (size_t i = 0; i < chosen_.size(); ++i) choose(i, -1);
  }

  // Everything that shrinks, then stops in the order of the candidates, until the gang fits.
  bool seed_by_cost() {
    for (size_t i = 0; i < candidates_.size() && !room_.enough(); ++i) {
      if (candidates_[i].options > 1) choose(i, candidates_[i].options - 2);
    }
    for (size_t i = 0; i < candidates_.size() && !room_.enough(); ++i) choose(i, candidates_[i].options - 1);
    const bool enough = room_.enough();
    if (enough) settle();
    return enough;
  }

  void seed_by(const std::vector<Victim>& known) {
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const int job = candidates_[i].job;
      const auto victim = std::lower_bound(known.begin(), known.end(), job,
                                           [](const Victim& one, int wanted) { return one.job < wanted; });
      if (victim == known.end() || victim->job != job) continue;
      for (int index = 0; index < candidates_[i].options; ++index)
        if (option(candidates_[i], index).learners_left == victim->learners_left) choose(i, index);
    }
    if (room_.enough()) settle();
    for (size_t i = 0; i < chosen_.size(); ++i) choose(i, -1);
  }

  // Node after node, each time the one that gives a place for the least: gangs need whole nodes, and the cheapest jobs
  // may be scattered over many.
  void seed_by_node() {
    std::vector<std::vector<size_t>> on_node(nodes_);
    for (size_t i = 0; i < candidates_.size(); ++i)
      for (const Freed& freed : most_freed(i)) on_node[freed.node].push_back(i);
    // The price of one more place on each node; only that of nodes whose jobs were taken changes.
    const auto price = [&](size_t node, int size, std::vector<size_t>* who) {
      int missing = size - room_.on(static_cast<int>(node)) % size;
      int64_t lost = 0;
      who->clear();
      for (const size_t i : on_node[node]) {
        if (missing <= 0) break;
        if (chosen_[i] == candidates_[i].options - 1) continue;
        who->push_back(i);
        lost += most(candidates_[i]).loss.stopped_gpu_s;
        for (const Freed& freed : most_freed(i)) {
          if (freed.node == static_cast<int>(node)) missing -= freed.gpus;
        }
      }
      return missing <= 0 ? lost : int64_t{-1};
    };
    std::set<std::pair<int64_t, size_t>> prices;  // the cheapest node first
    std::vector<int64_t> price_of(on_node.size(), -1);
    std::vector<size_t> who;
    const auto reprice = [&](size_t node, int size) {
      if (price_of[node] >= 0) prices.erase({price_of[node], node});
      price_of[node] = on_node[node].empty() ? -1 : price(node, size, &who);
      if (price_of[node] >= 0) prices.insert({price_of[node], node});
    };
    int priced = 0;  // the size that the prices are for
    while (const int size = room_.size_missing()) {
      for (size_t node = 0; priced != size && node < on_node.size(); ++node) reprice(node, size);
      priced = size;
      if (prices.empty()) break;
      price(prices.begin()->second, size, &who);
      const std::vector<size_t> taken = who;
      for (const size_t i : taken) choose(i, candidates_[i].options - 1);
      for (const size_t i : taken)
        for (const Freed& freed : most_freed(i)) reprice(static_cast<size_t>(freed.node), size);
    }
    if (room_.enough()) settle();
    for (size_t i = 0; i < chosen_.size(); ++i) choose(i, -1);
  }

  void prepare_bounds() {
    const std::vector<Places>& places = room_.places();
    most_from_.assign(places.size(), std::vector<int>(candidates_.size() + 1));
    for (size_t p = 0; p < places.size(); ++p) {
      std::vector<int>& most = most_from_[p];
      for (size_t i = candidates_.size(); i-- > 0;) {
        most[i] = most[i + 1];
        for (const Freed& freed : most_freed(i)) most[i] += (freed.gpus + places[p].size - 1) / places[p].size;
      }
    }
  }

  // Are even all candidates from this one on together not enough?
  bool hopeless_from(size_t i) const {
    const std::vector<Places>& places = room_.places();
    for (size_t p = 0; p < places.size(); ++p)
      if (places[p].slots + most_from_[p][i] < places[p].needed) return true;
    return false;
  }

  void descend(size_t i, const Loss& loss) {
    if (room_.enough()) {
      if (loss < best_loss_) {
        best_ = chosen_;
        best_loss_ = loss;
      }
      return;
    }
    if (budget_ <= 0 || i == candidates_.size() || hopeless_from(i)) return;
    --budget_;
    for (int index = 0; index < candidates_[i].options; ++index) {
      const Loss with = loss + option(candidates_[i], index).loss;
      if (!(with < best_loss_)) continue;
      choose(i, index);
      descend(i + 1, with);
      choose(i, -1);
    }
    descend(i + 1, loss);
  }

  GangsRoom room_;
  size_t nodes_ = 0;  // that candidates are on
  int& budget_;
  std::vector<Candidate> candidates_;
  std::vector<Option> options_;  // of all candidates
  std::vector<Freed> freed_;     // by all options
  std::vector<Freed> applied_;   // only during apply(): it is not allocated anew each time
  std::vector<int> chosen_;      // option of each candidate, -1: left alone
  std::vector<int> best_;
  Loss best_loss_;
  std::vector<std::vector<int>> most_from_;  // places of each size that the candidates from one on add at most
};

}  // namespace

bool less_loss(const VictimSet& a, const VictimSet& b) {
  return a.loss() < b.loss();
}

int64_t lost_if_paused(const ClusterState& state, const Job& job) {
  if (job.companion) return 0;
  const int64_t since =
      std::clamp<int64_t>(state.now_s - std::max(job.start_s, job.checkpoint_s), 0, state.most_unsaved_s);
  return std::max<int64_t>(1, (since + std::min(job.restart_s, state.most_restart_s)) * job.gpus());
}

std::vector<Part> parts_after_shrink(const std::vector<Part>& parts, int learners_left) {
  if (learners_left == 0) return {};
  int give = -learners_left;
  for (const Part& part : parts) give += part.learners;
  if (give == 0) return parts;
  std::vector<Part> left = parts;
  // Fewest first; among equals the last node.
  std::stable_sort(left.begin(), left.end(), [](const Part& a, const Part& b) {
    return a.learners != b.learners ? a.learners < b.learners : a.node > b.node;
  });
  for (Part& part : left) {
    const int from_here = std::min(give, part.learners);
    part.learners -= from_here;
    give -= from_here;
  }
  left.erase(std::remove_if(left.begin(), left.end(), [](const Part& part) { return part.learners == 0; }), left.end());
  std::sort(left.begin(), left.end(), [](const Part& a, const Part& b) { return a.node < b.node; });
  return left;
}

std::optional<VictimSet> find_victims(const ClusterState& state, const FreeGpus& free, int type, int gpus_per_learner,
                                      int learners, const std::vector<int>& candidates, int* budget, bool may_shrink,
                                      const SoFar* so_far) {
  int packing_steps = 0;  // one size is not packed
  return Search(state, free, type, {Need{gpus_per_learner, learners}}, candidates, budget, &packing_steps, may_shrink,
                so_far)
      .run();
}

std::optional<VictimSet> find_joint_victims(const ClusterState& state, const FreeGpus& free, int type,
                                            const std::vector<Need>& needs, const std::vector<int>& candidates,
                                            int* budget, int* packing_steps, const SoFar& so_far,
                                            const std::vector<Victim>& known) {
  return Search(state, free, type, needs, candidates, budget, packing_steps, true, &so_far).run(known);
}

}  // namespace dl::policy
