// SPDX-License-Identifier: Apache-2.0
// f[k] of a share: the most that its items, and those of shares below it, can be worth with k GPUs beyond their first
// options. Items are added one by one (the paper's P(j, k) = max over g of S_j(g) + P(j-1, k-g)), then the shares
// below. What was chosen at each k is kept, so that the way back finds the options.
#include <algorithm>
#include <cstdint>

#include "slurm-plugin/policy/elastic/one_type.h"

namespace dl::policy::elastic {
namespace {

constexpr int64_t kMostKept = 100'000'000;  // choices, of 4 bytes each

struct Added {
  int item = kNothing;  // or the share below that was added
  int below = kNothing;
  std::vector<int> chosen;  // by k: the item's option, or the GPUs of the share below
};

struct Table {
  std::vector<double> f{0.0};
  std::vector<Added> added;
  int most() const { return static_cast<int>(f.size()) - 1; }
};

int extra(const Item& item, int option) {
  return item.options[option].gpus - item.options.front().gpus;
}

class Programme {
 public:
  explicit Programme(const OneType& problem) : problem_(problem), items_(problem.limits.shares()) {
    for (size_t i = 0; i < problem.items.size(); ++i) items_[problem.items[i].share].push_back(static_cast<int>(i));
    below_.resize(items_.size());
    for (int share = 1; share < problem.limits.shares(); ++share)
      if (problem.limits.parent(share) != kNothing) below_[problem.limits.parent(share)].push_back(share);
  }

  bool takes_at_most(int64_t work) const {
    std::vector<int64_t> most(items_.size());
    int64_t steps = 0;
    int64_t kept = 0;
    for (int share = problem_.limits.shares() - 1; share >= 0; --share) {
      const int64_t limit = problem_.limits.left_of(share);
      for (const int item : items_[share]) {
        const Item& it = problem_.items[item];
        most[share] = std::min<int64_t>(limit, most[share] + extra(it, static_cast<int>(it.options.size()) - 1));
        steps += static_cast<int64_t>(it.options.size()) * (most[share] + 1);
        kept += most[share] + 1;
      }
      for (const int below : below_[share]) {
        const int64_t before = most[share];
        most[share] = std::min(limit, before + most[below]);
        steps += (std::min(most[below], before) + 1) * (most[share] + 1);
        kept += most[share] + 1;
      }
      if (steps > work || kept > kMostKept) return false;
    }
    return true;
  }

  Choices solve() {
    std::vector<Table> tables(items_.size());
    Choices choices(problem_.items.size(), 0);
    for (int share = problem_.limits.shares() - 1; share >= 0; --share) {
      Table& table = tables[share];
      for (const int item : items_[share]) add_item(item, problem_.limits.left_of(share), &table);
      for (const int below : below_[share]) add_below(below, tables[below].f, problem_.limits.left_of(share), &table);
    }
    for (int share = 0; share < problem_.limits.shares(); ++share)
      if (problem_.limits.parent(share) == kNothing) read_back(tables, share, tables[share].most(), &choices);
    return choices;
  }

 private:
  void add_item(int item, int limit, Table* table) const {
    const Item& it = problem_.items[item];
    const int before = table->most();
    const int most = std::min(limit, before + extra(it, static_cast<int>(it.options.size()) - 1));
    // f rises with k: what is beyond its end is worth what its end is.
    table->f.resize(most + 1, table->f.back());
    std::vector<double> next(most + 1);
    Added added{item, kNothing, std::vector<int>(most + 1, 0)};
    const double* f = table->f.data();
    for (int k = 0; k <= most; ++k) next[k] = f[k] + it.options.front().value;
    for (size_t option = 1; option < it.options.size(); ++option) {
      const int gpus = extra(it, static_cast<int>(option));
      const double value = it.options[option].value;
      for (int k = gpus; k <= most; ++k) {
        const double with = f[k - gpus] + value;
        if (with > next[k]) {
          next[k] = with;
          added.chosen[k] = static_cast<int>(option);
        }
      }
    }
    table->f = std::move(next);
    table->added.push_back(std::move(added));
  }

  static void add_below(int below, const std::vector<double>& g, int limit, Table* table) {
    const int before = table->most();
    const int most = static_cast<int>(std::min(int64_t{limit}, int64_t{before} + static_cast<int64_t>(g.size()) - 1));
    std::vector<double> next(most + 1);
    Added added{kNothing, below, std::vector<int>(most + 1, 0)};
    const auto& f = table->f;
    for (int k = 0; k <= most; ++k) {
      const int first = std::max(0, k - before);
      const int last = std::min(k, static_cast<int>(g.size()) - 1);
      int best = first;
      for (int c = first; c <= last; ++c)
        if (f[k - c] + g[c] > f[k - best] + g[best]) best = c;
      next[k] = f[k - best] + g[best];
      added.chosen[k] = best;
    }
    table->f = std::move(next);
    table->added.push_back(std::move(added));
  }

  void read_back(const std::vector<Table>& tables, int share, int k, Choices* choices) const {
    const Table& table = tables[share];
    for (auto added = table.added.rbegin(); added != table.added.rend(); ++added) {
      k = std::min(k, static_cast<int>(added->chosen.size()) - 1);
      const int chosen = added->chosen[k];
      if (added->item != kNothing) {
        (*choices)[added->item] = chosen;
        k -= extra(problem_.items[added->item], chosen);
      } else {
        read_back(tables, added->below, chosen, choices);
        k -= chosen;
      }
    }
  }

  const OneType& problem_;
  std::vector<std::vector<int>> items_, below_;  // by share
};

}  // namespace

std::optional<Choices> by_programme(const OneType& problem, int64_t work) {
  Programme programme(problem);
  if (!programme.takes_at_most(work)) return std::nullopt;
  return programme.solve();
}

}  // namespace dl::policy::elastic
