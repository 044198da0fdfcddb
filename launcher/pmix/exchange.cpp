// SPDX-License-Identifier: Apache-2.0
#include "launcher/pmix/exchange.h"

#include <algorithm>

namespace dl::pmix {

namespace {

size_t bytes_of(const std::vector<int>& ranks) {
  return ranks.size() * sizeof(int);
}
size_t bytes_of(const std::vector<std::string>& keys) {
  size_t bytes = 0;
  for (const std::string& key : keys) bytes += key.size();
  return bytes;
}

}  // namespace

Exchange::Exchange(const std::vector<std::vector<int>>& ranks, const Limits& limits)
    : limits_(limits), nodes_(static_cast<int>(ranks.size())) {
  for (size_t node = 0; node < ranks.size(); ++node) {
    for (const int rank : ranks[node]) {
      if (static_cast<size_t>(rank) >= node_of_.size()) node_of_.resize(static_cast<size_t>(rank) + 1, -1);
      node_of_[static_cast<size_t>(rank)] = static_cast<int>(node);
    }
  }
}

Exchange::Answers Exchange::handle(int node, const PmixMessage& message) {
  if (const auto* fence = std::get_if<Fence>(&message)) return on_fence(node, *fence);
  if (const auto* get = std::get_if<Get>(&message)) return on_get(node, *get);
  if (const auto* got = std::get_if<Got>(&message)) return on_got(node, *got);
  if (const auto* publish = std::get_if<Publish>(&message)) return on_publish(node, *publish);
  if (const auto* lookup = std::get_if<Lookup>(&message)) return on_lookup(node, *lookup);
  if (const auto* unpublish = std::get_if<Unpublish>(&message)) return on_unpublish(node, *unpublish);
  if (const auto* abort = std::get_if<Abort>(&message)) return {{node, Done{abort->id, kSuccess}}};
  Answers answers;
  if (const auto* event = std::get_if<Event>(&message); event != nullptr && on_node(event->rank, node)) {
    for (int other = 0; other < nodes_; ++other)
      if (other != node) answers.push_back({other, *event});
  }
  return answers;
}

// Handles a node's part of a fence. For one set of ranks and one kind, at most one open fence lacks a given node,
// because a node enters the next fence only after it has left the previous one.
Exchange::Answers Exchange::on_fence(int node, const Fence& fence) {
  std::set<int> nodes;
  bool lost = false;
  for (const int rank : fence.ranks) {
    if (!known(rank)) return {{node, Done{fence.id, kBadParameter}}};
    nodes.insert(node_of_[static_cast<size_t>(rank)]);
    lost = lost || failed_.count(rank) != 0;
  }
  if (fence.ranks.empty()) {
    for (int each = 0; each < nodes_; ++each) nodes.insert(each);
    lost = !failed_.empty();
  }
  if (nodes.count(node) == 0) return {{node, Done{fence.id, kBadParameter}}};
  if (lost) return {{node, Done{fence.id, kLostConnection}}};
  auto open = std::find_if(fences_.begin(), fences_.end(), [&](const OpenFence& f) {
    return f.kind == fence.kind && f.ranks == fence.ranks && f.in.count(node) == 0;
  });
  const bool first = open == fences_.end();
  const size_t bytes = fence.data.bytes.size() + (first ? bytes_of(fence.ranks) : 0);
  if (fenced_bytes_ + bytes > limits_.fenced || (first && fences_.size() >= limits_.open))
    return {{node, Done{fence.id, kOutOfResource}}};
  if (first) open = fences_.insert(fences_.end(), {fence.kind, fence.ranks, std::move(nodes), {}});
  open->in[node] = {fence.id, fence.data.bytes};
  fenced_bytes_ += bytes;
  if (open->in.size() < open->nodes.size()) return {};
  Answers answers = settle(*open, kSuccess);
  fences_.erase(open);
  return answers;
}

Exchange::Answers Exchange::settle(const OpenFence& fence, int status) {
  Answers answers;
  fenced_bytes_ -= bytes_of(fence.ranks);
  for (const auto& [node, mine] : fence.in) {
    fenced_bytes_ -= mine.second.size();
    if (status == kSuccess)
      for (const auto& [other, theirs] : fence.in)
        if (!theirs.second.empty()) answers.push_back({node, FencePart{mine.first, {theirs.second}}});
    answers.push_back({node, Done{mine.first, status}});
  }
  return answers;
}

Exchange::Answers Exchange::on_get(int node, const Get& get) {
  if (!known(get.rank)) return {{node, Got{get.id, kNotFound, {}}}};
  if (failed_.count(get.rank) != 0) return {{node, Got{get.id, kLostConnection, {}}}};
  if (gets_.size() >= limits_.open) return {{node, Got{get.id, kOutOfResource, {}}}};
  const int64_t id = next_get_++;
  gets_[id] = {node, get.id, get.rank};
  return {{node_of_[static_cast<size_t>(get.rank)], Get{id, get.rank}}};
}

Exchange::Answers Exchange::on_got(int node, const Got& got) {
  const auto open = gets_.find(got.id);
  if (open == gets_.end() || !on_node(open->second.rank, node)) return {};
  Got answer = got;
  answer.id = open->second.id;
  const int asker = open->second.asker;
  gets_.erase(open);
  return {{asker, std::move(answer)}};
}

Exchange::Answers Exchange::on_publish(int node, const Publish& publish) {
  if (!on_node(publish.rank, node)) return {{node, Done{publish.id, kBadParameter}}};
  size_t bytes = 0;
  std::set<std::string> keys;
  for (const Entry& entry : publish.entries) {
    if (stored_.count(entry.key) != 0 || !keys.insert(entry.key).second)
      return {{node, Done{publish.id, kDuplicateKey}}};
    bytes += entry.data.bytes.size();
  }
  if (stored_bytes_ + bytes > limits_.stored || stored_.size() + publish.entries.size() > limits_.keys)
    return {{node, Done{publish.id, kOutOfResource}}};
  for (const Entry& entry : publish.entries) stored_[entry.key] = {publish.rank, entry.data.bytes};
  stored_bytes_ += bytes;
  Answers answers = {{node, Done{publish.id, kSuccess}}};
  for (auto waiting = lookups_.begin(); waiting != lookups_.end();) {
    auto found = find(waiting->question);
    if (!found) {
      ++waiting;
      continue;
    }
    answers.push_back({waiting->node, *std::move(found)});
    awaited_bytes_ -= bytes_of(waiting->question.keys);
    waiting = lookups_.erase(waiting);
  }
  return answers;
}

// A rank may unpublish only what it published itself.
Exchange::Answers Exchange::on_unpublish(int node, const Unpublish& unpublish) {
  if (!on_node(unpublish.rank, node)) return {{node, Done{unpublish.id, kBadParameter}}};
  for (auto at = stored_.begin(); at != stored_.end();) {
    const bool named = unpublish.keys.empty() ||
                       std::find(unpublish.keys.begin(), unpublish.keys.end(), at->first) != unpublish.keys.end();
    if (!named || at->second.rank != unpublish.rank) {
      ++at;
      continue;
    }
    stored_bytes_ -= at->second.data.size();
    at = stored_.erase(at);
  }
  return {{node, Done{unpublish.id, kSuccess}}};
}

Exchange::Answers Exchange::on_lookup(int node, const Lookup& lookup) {
  if (auto found = find(lookup)) return {{node, *std::move(found)}};
  const size_t bytes = bytes_of(lookup.keys);
  if (lookups_.size() >= limits_.open || awaited_bytes_ + bytes > limits_.stored)
    return {{node, Found{lookup.id, kOutOfResource, {}}}};
  awaited_bytes_ += bytes;
  lookups_.push_back({node, lookup});
  return {};
}

// No value: the lookup has to wait.
std::optional<Found> Exchange::find(const Lookup& lookup) const {
  Found found{lookup.id, kSuccess, {}};
  size_t bytes = 0;
  for (const std::string& key : lookup.keys) {
    const auto at = stored_.find(key);
    if (at == stored_.end()) {
      if (lookup.wait) return std::nullopt;
      continue;
    }
    bytes += key.size() + at->second.data.size();
    if (bytes > kMaxData) return Found{lookup.id, kOutOfResource, {}};
    found.entries.push_back({key, {at->second.data}, at->second.rank});
  }
  if (found.entries.empty()) found.status = kNotFound;
  return found;
}

Exchange::Answers Exchange::gone(int rank, bool failed) {
  Answers answers;
  if (!known(rank)) return answers;
  if (failed) failed_.insert(rank);
  for (auto fence = fences_.begin(); failed && fence != fences_.end();) {
    const bool member = fence->ranks.empty() || std::binary_search(fence->ranks.begin(), fence->ranks.end(), rank);
    if (!member) {
      ++fence;
      continue;
    }
    for (Answer& answer : settle(*fence, kLostConnection)) answers.push_back(std::move(answer));
    fence = fences_.erase(fence);
  }
  for (auto get = gets_.begin(); get != gets_.end();) {
    if (get->second.rank != rank) {
      ++get;
      continue;
    }
    answers.push_back({get->second.asker, Got{get->second.id, failed ? kLostConnection : kNotFound, {}}});
    get = gets_.erase(get);
  }
  return answers;
}

}  // namespace dl::pmix
