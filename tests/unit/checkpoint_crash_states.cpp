// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/checkpoint_crash_states.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "checkpoint/format/hash.h"

namespace dl::ckpt::test {
namespace {

constexpr uint64_t kPage = 4096;

bool changes_directory(const ModelOp& op) {
  return op.kind == ModelOp::kMake || op.kind == ModelOp::kRemove || op.kind == ModelOp::kRename;
}

bool changes_file(const ModelOp& op) {
  return op.kind == ModelOp::kWrite || op.kind == ModelOp::kGrow || op.kind == ModelOp::kCut;
}

// Whether ops[i] is on the disk for certain when the power goes after `count` operations.
std::vector<bool> durable(const std::vector<ModelOp>& ops, size_t count) {
  std::vector<bool> sure(count, false);
  std::set<int> synced;  // by what follows; files and directories have different numbers
  for (size_t i = count; i-- > 0;) {
    const ModelOp& op = ops[i];
    if (op.kind == ModelOp::kSyncFile || op.kind == ModelOp::kSyncDirectory) synced.insert(op.node);
    if (changes_file(op) || changes_directory(op))
      sure[i] = synced.count(op.kind == ModelOp::kRename ? op.other : op.node) > 0;
  }
  return sure;
}

// What can be on the disk or not by itself: an operation, or the part of a write that lies in one page.
struct Atom {
  size_t op;
  uint64_t from, to;
};

using Hashes = std::unordered_map<const std::string*, std::string>;

std::string hash_of(const std::string& data) {
  return to_hex(hash_bytes(data.data(), data.size())) + " " + std::to_string(data.size());
}

// `known` has hashes of contents that many states share; it must not outlive these.
void describe_tree(const ModelState& state, int at, const Hashes& known, std::string* text) {
  const ModelState::Node& node = state.nodes[static_cast<size_t>(at)];
  if (!node.directory) {
    const auto found = known.find(node.data.get());
    // With its number, which two names of one file share.
    *text += (found == known.end() ? hash_of(*node.data) : found->second) + " #" + std::to_string(at);
    return;
  }
  *text += "{";
  for (const auto& [name, child] : node.entries) {
    *text += name + "=";
    describe_tree(state, child, known, text);
    *text += ",";
  }
  *text += "}";
}

uint64_t fingerprint(const ModelState& state, const Hashes& known) {
  std::string text;
  describe_tree(state, 0, known, &text);
  return hash_bytes(text.data(), text.size()).low;
}

class Explorer {
 public:
  Explorer(DurableState* known_durable, const std::vector<ModelOp>& ops, size_t count,
           const std::function<void(const ModelState&, uint64_t)>& visit)
      : initial_(known_durable->state),
        begin_(known_durable->count),
        ops_(ops),
        count_(count),
        sure_(durable(ops, count)),
        visit_(visit) {
    for (size_t i = 0; i < count; ++i) {
      const ModelOp& op = ops[i];
      if (op.kind == ModelOp::kMake) {  // what a thing is goes with it, whatever became of its first name
        initial_.nodes.resize(std::max(initial_.nodes.size(), static_cast<size_t>(op.other) + 1));
        ModelState::Node& node = initial_.nodes[static_cast<size_t>(op.other)];
        node.directory = node.directory || op.directory;
      }
      if (sure_[i] || !(changes_file(op) || changes_directory(op))) continue;
      open_.push_back(i);
      if (op.kind != ModelOp::kWrite) {
        atoms_.push_back(Atom{i, 0, UINT64_MAX});
        continue;
      }
      for (uint64_t from = 0; from < op.bytes.size();) {
        const uint64_t to = std::min<uint64_t>(op.bytes.size(), from + kPage - (op.at + from) % kPage);
        atoms_.push_back(Atom{i, from, to});
        from = to;
      }
    }
    for (; begin_ < (open_.empty() ? count : open_.front()); ++begin_)
      if (sure_[begin_]) apply(ops[begin_], &initial_);
    for (const ModelState::Node& node : initial_.nodes)
      if (node.data) known_.emplace(node.data.get(), hash_of(*node.data));
  }

  // Nearly everything or nearly nothing is what crashes mostly leave, and where an order that was relied on shows.
  void run(const CrashBounds& bounds) {
    const size_t n = open_.size();
    if (n <= bounds.exhaustive) {
      for (uint64_t set = 0; set < (uint64_t{1} << n); ++set)
        by_operation([&](size_t k) { return (set >> k & 1) != 0; });
    } else {
      by_operation([](size_t) { return false; });
      by_operation([](size_t) { return true; });
      for (size_t i = 0; i < n; ++i) {
        by_operation([&](size_t k) { return k == i; });
        by_operation([&](size_t k) { return k != i; });
        by_operation([&](size_t k) { return k < i; });
        by_operation([&](size_t k) { return k >= i; });
      }
      by_operation([&](size_t k) { return changes_directory(ops_[open_[k]]); });
      by_operation([&](size_t k) { return changes_file(ops_[open_[k]]); });
    }
    std::mt19937 random(bounds.seed + static_cast<uint32_t>(count_));
    const int samples = n <= bounds.exhaustive && atoms_.size() == n ? 0 : bounds.samples;
    for (int s = 0; s < samples; ++s) {
      const uint32_t chance = s % 4 == 0 ? 1 : s % 4 == 1 ? 9 : 5;  // in tenths
      std::vector<bool> chosen(atoms_.size());
      for (size_t k = 0; k < chosen.size(); ++k) chosen[k] = random() % 10 < chance;
      if (is_made()) by_atom(chosen);
    }
  }

 private:
  bool is_made() { return ++tried_ % CrashBounds::kOneOf == 0; }

  void by_operation(const std::function<bool(size_t)>& chosen) {
    if (!is_made()) return;
    std::vector<bool> atoms(atoms_.size());
    for (size_t a = 0, k = 0; a < atoms_.size(); ++a) {
      while (open_[k] != atoms_[a].op) ++k;
      atoms[a] = chosen(k);
    }
    by_atom(atoms);
  }

  void by_atom(const std::vector<bool>& chosen) {
    ModelState state = initial_;
    size_t a = 0;
    for (size_t i = begin_; i < count_; ++i) {
      if (sure_[i]) apply(ops_[i], &state);
      for (; a < atoms_.size() && atoms_[a].op == i; ++a)
        if (chosen[a]) apply(ops_[i], &state, atoms_[a].from, atoms_[a].to);
    }
    const uint64_t tree = fingerprint(state, known_);
    if (seen_.insert(tree).second) visit_(state, tree);
  }

  ModelState& initial_;  // all states have it
  size_t& begin_;        // the first operation that it does not have
  const std::vector<ModelOp>& ops_;
  size_t count_;
  std::vector<bool> sure_;
  const std::function<void(const ModelState&, uint64_t)>& visit_;
  size_t tried_ = count_ * 7;  // else the first of each count would never be made where few are
  std::vector<size_t> open_;   // operations that are not durable
  std::vector<Atom> atoms_;
  std::set<uint64_t> seen_;
  Hashes known_;  // of what initial_ has
};

}  // namespace

uint64_t fingerprint(const ModelState& state) {
  return fingerprint(state, Hashes());
}

void for_each_crash(DurableState* durable, const std::vector<ModelOp>& ops, size_t count, const CrashBounds& bounds,
                    const std::function<void(const ModelState&, uint64_t)>& visit) {
  Explorer(durable, ops, count, visit).run(bounds);
}

}  // namespace dl::ckpt::test
