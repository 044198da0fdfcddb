// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/fold.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace dl::logs {
namespace {

// How many other lines are tried before a line is shown although some learner has the same one further behind.
constexpr int kTries = 16;

// A line and how often the same learner has written it before, among those that wait: three equal lines of one learner
// are alike with three of another.
uint64_t key_of(std::string_view line, uint64_t before) {
  return std::hash<std::string_view>{}(line) + before * 0x9e3779b97f4a7c15U;
}

class Folding {
 public:
  Folding(std::vector<Waiting>* learners, const ShowLine& show) : learners_(*learners), show_(show) {
    keys_.resize(learners_.size());
    for (size_t i = 0; i < learners_.size(); ++i) {
      std::unordered_map<std::string_view, uint64_t> before;
      for (const std::string& line : learners_[i].lines) {
        keys_[i].push_back(key_of(line, before[line]++));
        ++waiting_[keys_[i].back()];
      }
      put_head(i);
    }
  }

  void run() {
    for (size_t i = 0; i < learners_.size(); ++i)
      while (learners_[i].due > 0) show(choose(i));
  }

 private:
  void put_head(size_t i) {
    if (!keys_[i].empty()) heads_[keys_[i].front()].push_back(i);
  }

  // Whether all that have this line are at it now.
  bool complete(uint64_t key) const { return heads_.at(key).size() == waiting_.at(key); }

  // Learner i's next line; or, if others have it further behind, a line that stands before it there and is complete.
  uint64_t choose(size_t i) const {
    const uint64_t key = keys_[i].front();
    if (complete(key)) return key;
    int tries = kTries;
    for (const auto& [other, at] : heads_) {
      if (tries-- == 0) break;
      if (complete(other) && std::any_of(at.begin(), at.end(), [this](size_t j) { return learners_[j].due > 0; }))
        return other;
    }
    return key;
  }

  void show(uint64_t key) {
    std::vector<size_t> group = std::move(heads_[key]);
    heads_.erase(key);
    std::sort(group.begin(), group.end());
    // Two lines may have one key by accident.
    const std::string line = learners_[group.front()].lines.front();
    std::vector<int> ranks;
    std::vector<size_t> others;
    for (const size_t i : group) {
      if (learners_[i].lines.front() != line) {
        others.push_back(i);
        continue;
      }
      ranks.push_back(learners_[i].rank);
      learners_[i].lines.pop_front();
      keys_[i].pop_front();
      --waiting_[key];
      if (learners_[i].due > 0) --learners_[i].due;
    }
    if (!others.empty()) heads_[key] = others;
    for (const size_t i : group)
      if (std::find(others.begin(), others.end(), i) == others.end()) put_head(i);
    show_(ranks, line);
  }

  std::vector<Waiting>& learners_;
  const ShowLine& show_;
  std::vector<std::deque<uint64_t>> keys_;                   // of each learner's lines
  std::unordered_map<uint64_t, size_t> waiting_;             // how many learners have such a line
  std::unordered_map<uint64_t, std::vector<size_t>> heads_;  // and are at it, by their places in learners_
};

}  // namespace

void show_due(std::vector<Waiting>* learners, bool alike, const ShowLine& show) {
  if (std::none_of(learners->begin(), learners->end(), [](const Waiting& learner) { return learner.due > 0; })) return;
  if (alike && learners->size() > 1) return Folding(learners, show).run();
  for (Waiting& learner : *learners)
    for (; learner.due > 0; --learner.due) {
      const std::string line = std::move(learner.lines.front());
      learner.lines.pop_front();
      show({learner.rank}, line);
    }
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (end - i > 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace dl::logs
