// SPDX-License-Identifier: Apache-2.0
#include "launcher/plot/thin.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dl::plot {
namespace {

using Runs = std::vector<std::vector<Sample>>;

bool by_x(const Sample& a, const Sample& b) {
  return a.x < b.x;
}

// The finite samples between gaps.
Runs runs_of(const std::vector<Sample>& samples) {
  Runs runs;
  bool open = false;
  for (const Sample& sample : samples) {
    const bool finite = std::isfinite(sample.x) && std::isfinite(sample.y);
    if (finite && !open) runs.emplace_back();
    if (finite) runs.back().push_back(sample);
    open = finite;
  }
  for (auto& run : runs)
    if (!std::is_sorted(run.begin(), run.end(), by_x)) std::stable_sort(run.begin(), run.end(), by_x);
  return runs;
}

// The samples of one column.
class Column {
 public:
  explicit Column(const Sample& first) : first_(first), lowest_(first), highest_(first), last_(first) {}
  void add(const Sample& sample) {
    if (sample.y < lowest_.y) lowest_ = sample;
    if (sample.y > highest_.y) highest_ = sample;
    last_ = sample;
  }
  void put(std::vector<Sample>* run) const {
    // In the order in which they follow one another on the axis; equal ones once.
    const bool down_first = lowest_.x <= highest_.x;
    for (const Sample& sample : {first_, down_first ? lowest_ : highest_, down_first ? highest_ : lowest_, last_})
      if (run->empty() || run->back().x != sample.x || run->back().y != sample.y) run->push_back(sample);
  }

 private:
  Sample first_, lowest_, highest_, last_;
};

int column_of(double x, const Range& range, int columns) {
  return std::min(columns - 1, static_cast<int>(range.part(x) * columns));
}

std::vector<Sample> thin_run(const std::vector<Sample>& run, const Range& range, int columns) {
  std::vector<Sample> thin;
  Column column(run.front());
  int at = column_of(run.front().x, range, columns);
  for (const Sample& sample : run) {
    const int its = column_of(sample.x, range, columns);
    if (its != at) {
      column.put(&thin);
      column = Column(sample);
      at = its;
    }
    column.add(sample);
  }
  column.put(&thin);
  return thin;
}

// Joins runs where no column lies between them.
Runs without_narrow_gaps(Runs runs, const Range& range, int columns) {
  Runs joined;
  for (auto& run : runs) {
    if (!joined.empty()) {
      auto& before = joined.back();
      const int from = column_of(before.back().x, range, columns), to = column_of(run.front().x, range, columns);
      if (before.back().x <= run.front().x && to - from <= 1) {
        before.insert(before.end(), run.begin(), run.end());
        continue;
      }
    }
    joined.push_back(std::move(run));
  }
  return joined;
}

}  // namespace

Runs thinned(const std::vector<Sample>& samples, const Range& x, int columns, size_t most) {
  const Runs runs = without_narrow_gaps(runs_of(samples), x, std::max(1, columns));
  for (int wide = std::max(1, columns);; wide /= 2) {
    Runs thin;
    size_t count = 0;
    for (const auto& run : runs) {
      thin.push_back(thin_run(run, x, wide));
      count += thin.back().size();
    }
    if (count <= most) return thin;
    if (wide > 1) continue;
    // So many runs that each of them has too much: one curve without gaps.
    std::vector<Sample> all;
    for (const auto& run : thin) all.insert(all.end(), run.begin(), run.end());
    std::stable_sort(all.begin(), all.end(), by_x);
    return {thin_run(all, x, std::clamp(static_cast<int>(most / 4), 1, std::max(1, columns)))};
  }
}

}  // namespace dl::plot
